"""What a publish and its confirm cost an ingress's process on RabbitMQ: ours beside aio-pika's `Exchange.publish`.

64 in flight, persistent messages, a quorum queue, each side in a process of its own, in turn. The CPU is of the
publishing process alone.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq.rabbitnode import PrivateRabbit
from inferq.valkey import EmbeddedValkey
from loadgen.childwork import ask
from loadgen.figures import Figure, at_least, at_most
from loadgen.publishing import AIO_PIKA, OURS, Published, Publishing

TIMES: Final = 3.0
MOST_CPU_US: Final = 10.0
WITHIN_S: Final = 180.0


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of each side."""

    runs: Mapping[str, Published]


async def rounds(*, count: int, jobs: int, in_flight: int = 64, say: Callable[[str], None]) -> list[Round]:
    """Publish ``jobs`` by each side ``count`` times, in turn, to a private node of its own.

    Raises:
        OperatorError: the node, or the Redis beside it, does not start.
    """
    found = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferq-bench-")))
        node, valkey = PrivateRabbit(folder / "rabbit"), EmbeddedValkey(folder / "valkey")
        for server in (valkey, node):
            stack.push_async_callback(server.stop)
            await server.start()
        for number in range(count):
            sides = (OURS, AIO_PIKA) if number % 2 == 0 else (AIO_PIKA, OURS)
            runs = {}
            for side in sides:
                order = Publishing(
                    url=node.url,
                    redis_url=valkey.url,
                    by=side,
                    jobs=jobs,
                    in_flight=in_flight,
                    broker=node.pid or 0,
                )
                runs[side] = await ask("loadgen.publishing", order, Published, within_s=WITHIN_S)
            say(
                f"publish, round {number + 1} of {count}: "
                + ", ".join(
                    f"{side} {run.per_s:.0f}/s, {run.cpu_us:.1f} us ({run.broker_cpu_us:.0f} us of the broker)"
                    for side, run in runs.items()
                )
            )
            found.append(Round(runs=runs))
    return found


def judged(found: Sequence[Round]) -> list[Figure]:
    """Return the figures of rounds, at least one."""
    figures = []
    for side in (AIO_PIKA, OURS):
        rate = statistics.median(one.runs[side].per_s for one in found)
        figures.append(Figure(name=f"publish and confirm, {side}", value=rate, unit="messages/s"))
    over = statistics.median(one.runs[OURS].per_s / one.runs[AIO_PIKA].per_s for one in found)
    theirs_us = statistics.median(one.runs[AIO_PIKA].cpu_us for one in found)
    ours_us = statistics.median(one.runs[OURS].cpu_us for one in found)
    return [
        *figures,
        at_least("publish and confirm, ours over aio-pika", over, TIMES, "times"),
        Figure(name=f"publish and confirm, {AIO_PIKA}, CPU for a message", value=theirs_us, unit="us"),
        at_most(f"publish and confirm, {OURS}, CPU for a message", ours_us, MOST_CPU_US, "us"),
        *(
            Figure(
                name=f"publish and confirm, {side}, the broker's CPU for a message",
                value=statistics.median(one.runs[side].broker_cpu_us for one in found),
                unit="us",
            )
            for side in (AIO_PIKA, OURS)
        ),
    ]
