"""Which step of a batcher's work a sampled stack belongs to. Pure.

A sample is a stack as `py-spy record --format raw` writes it, `outer (file:line);…;inner (file:line) count`. It counts
for the step of its innermost frame that `STEPS` knows, so that a library's work counts for whoever called it. What is
done for everybody at once has no such caller, and counts for the first of the `LINKS` that it has to do with.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

Rule = tuple[str, str, str]
"""Where a frame's file lies, how its function's name begins (empty: any), and what it then counts for."""

STEPS: Final[Sequence[Rule]] = (
    ("batcher/tokenizer.py", "", "tokenise"),
    ("tokenizers/", "", "tokenise"),
    ("batcher/cache.py", "", "compose"),
    ("batcher/composition.py", "", "compose"),
    ("batcher/cost.py", "", "compose"),
    ("batcher/lanes.py", "", "compose"),
    ("batcher/mates.py", "", "compose"),
    ("batcher/planner.py", "", "compose"),
    ("batcher/policy.py", "", "compose"),
    ("batcher/window.py", "", "compose"),
    ("batcher/engine", "", "engine's link"),
    ("batcher/frames.py", "", "engine's link"),
    ("batcher/wire.py", "", "engine's link"),
    ("inferq/broker/", "ack", "ack"),
    ("inferq/broker/", "_ack", "ack"),
    ("inferq/broker/", "", "consume"),
    ("aio_pika/", "", "consume"),
    ("aiormq/", "", "consume"),
    ("batcher/worker.py", "deliver", "consume"),
    ("inferq/messages.py", "decode", "consume"),
    ("batcher/intake.py", "", "consume"),
    ("batcher/settling.py", "start", "start"),
    ("batcher/settling.py", "_ack", "ack"),
    ("batcher/settling.py", "", "finish"),
    ("batcher/scores.py", "", "finish"),
    ("inferq/steps.py", "start", "start"),
    ("inferq/steps.py", "finish", "finish"),
    ("batcher/tally.py", "", "counting"),
    ("prometheus_client/", "", "counting"),
)
LINKS: Final[Sequence[Rule]] = (
    ("inferq/connection.py", "", "link to Redis"),
    ("inferq/pipeline.py", "", "link to Redis"),
    ("redis/", "", "link to Redis"),
    ("pamqp/", "", "link to RabbitMQ"),
    ("batcher/worker.py", "", "the worker's own"),
    ("batcher/runner.py", "", "the worker's own"),
    ("batcher/ledger.py", "", "the worker's own"),
    ("batcher/service.py", "", "the worker's own"),
    ("asyncio/", "", "the loop"),
    ("uvloop/", "", "the loop"),
)
REST: Final = "rest"
NAMES: Final = (*dict.fromkeys(step for *_, step in (*STEPS, *LINKS)), REST)


def step_of(stack: str) -> str:
    """Return what a stack counts for, outermost frame first, frames separated by semicolons."""
    frames = [_frame(frame) for frame in reversed(stack.split(";"))]
    known = [step for frame in frames for rule in STEPS if (step := _match(rule, frame))]
    known += [step for rule in LINKS for frame in frames if (step := _match(rule, frame))]
    return known[0] if known else REST


def shares(lines: Iterable[str]) -> dict[str, float]:
    """Return the share of all samples that each name has, in the order of `NAMES`; empty for no samples."""
    counted: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if stack and count.isdigit():
            counted[step_of(stack)] += int(count)
    total = counted.total()
    return {step: counted[step] / total for step in NAMES if counted[step]}


def _match(rule: Rule, frame: tuple[str, str]) -> str:
    place, name, step = rule
    file, function = frame
    return step if f"/{place}" in file and function.startswith(name) else ""


def _frame(text: str) -> tuple[str, str]:
    """Return file and function of a frame; the file begins with a slash, the function has no class before it."""
    function, _, place = text.partition(" (")
    return "/" + place.rpartition(":")[0], function.rpartition(".")[2]
