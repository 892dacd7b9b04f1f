"""`inferq demo`: the pipeline on free ports, sample sentences through it, and where their time went."""

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import typer

from inferq.cli.asked import Asked
from inferq.cli.deployment import Endpoint
from inferq.cli.flags import with_settings
from inferq.cli.outcomes import Outcome
from inferq.cli.plain import printable
from inferq.cli.resultwords import in_brief
from inferq.cli.running import INTERRUPTED, for_eyes, prepare_model, run_with
from inferq.cli.terminal import output, progress, row, run, table
from inferq.errors import OperatorError
from inferq.loading import load_settings
from inferq.local import RABBITMQ, LocalPipeline
from inferq.plurals import counted
from inferq.ports import LOOPBACK
from inferq.sdk.batches import Options
from inferq.settings import Settings, with_values

SENTENCES: Final = (
    "I loved every minute of it",
    "the food was cold and the waiter was rude",
    "easy to use, looks great, and the battery lasts for days",
    "a complete waste of money",
    "She was kind, helpful and very friendly",
    "it broke after two days and support never answered",
    "the acting is superb, the music moved me, and I left the cinema with a smile",
    "boring, slow and far too long",
)
_KEPT_LINES: Final = 60
_SENTENCE_WIDTH: Final = 40


@with_settings
def demo(flags: dict[str, str]) -> None:
    """Start the pipeline on free ports, send sample sentences, show what became of each, stop.

    Nothing of it stays: its data lies in a temporary folder.
    """
    settings, _ = load_settings(os.environ, flags)
    settings = with_values(without_keys(settings), log_format=for_eyes(settings))
    raise typer.Exit(_demo(settings))


def without_keys(settings: Settings) -> Settings:
    """Return settings without API keys, which only we would use; what they allowed beyond loopback goes with them."""
    if not settings.api_keys:
        return settings
    return with_values(settings, api_keys="", host=settings.host if settings.allow_open else LOOPBACK)


def _demo(settings: Settings) -> int:
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    outcomes: list[Outcome] = []
    watched = sys.stderr.isatty()
    with (
        tempfile.TemporaryDirectory(prefix="inferq-demo-", ignore_cleanup_errors=True) as folder,
        progress("starting") as shown,
    ):

        def say(text: str) -> None:
            lines.append(f"inferq | {text}")
            shown.show(text)
            if not watched:
                sys.stderr.write(f"{text}\n")

        prepare_model(settings, say)
        try:
            code = run(_run(settings, Path(folder), outcomes, say, lines))
        except OperatorError:
            _show(lines)
            raise
    if code != 0:
        return code
    _print(outcomes)
    if all(outcome.done for outcome in outcomes):
        return 0
    _show(lines)
    return 1


async def _run(
    wanted: Settings, folder: Path, outcomes: list[Outcome], say: Callable[[str], None], lines: deque[str]
) -> int:
    """Fill ``outcomes``; returns 0, or the exit code of a signal."""
    # On a server that others use, jobs of theirs must not reach our batchers, nor ours theirs.
    borrowed = not wanted.namespace and bool(wanted.redis_url or wanted.broker_url not in {"", RABBITMQ})
    settings = with_values(wanted, namespace=f"demo-{secrets.token_hex(4)}-") if borrowed else wanted
    pipeline = LocalPipeline(
        settings,
        state_dir=folder,
        ports_auto=True,
        say=say,
        on_line=lambda name, line: lines.append(f"{name} | {line}"),
    )
    begun, started = time.monotonic(), False

    async def work() -> int:
        nonlocal started
        started = True
        say(f"the pipeline is up after {time.monotonic() - begun:.1f} s")
        outcomes.extend(await _send(pipeline.urls.api, say))
        say("stopping")
        return 0

    code = await run_with(pipeline, work, say=say)
    if borrowed and started:
        from inferq.cli.leftovers import remove_namespace

        # An embedded Valkey is gone by now, and its keys with it.
        await remove_namespace(with_values(pipeline.settings, redis_url=wanted.redis_url), say)
    return INTERRUPTED if code is None else code


async def _send(url: str, say: Callable[[str], None]) -> list[Outcome]:
    from inferq.cli.calls import connected
    from inferq.cli.sending import Sending

    say(f"sending {len(SENTENCES)} sentences at once")
    outcomes: list[Outcome] = []

    async def keep(more: Sequence[Outcome]) -> None:
        outcomes.extend(more)

    async def each() -> AsyncIterator[list[Asked]]:
        for text in SENTENCES:
            yield [Asked(text=text, options=Options())]

    async with connected(Endpoint(url=url)) as client:
        # Connections first, so that the times are those of submits.
        await asyncio.gather(*(client.check() for _ in SENTENCES))
        await Sending(client, keep, in_order=True).run(each())
    return outcomes


def _print(outcomes: list[Outcome]) -> None:
    _print_table(outcomes)
    done = sum(outcome.done for outcome in outcomes)
    last_ms = max(outcome.result_ms for outcome in outcomes)
    batches = {outcome.record.batch.id for outcome in outcomes if outcome.record and outcome.record.batch}
    models = {outcome.record.model for outcome in outcomes if outcome.record}
    output().print(
        f"{done} of {len(outcomes)} done in {last_ms:.0f} ms,"
        f" {counted(len(batches), 'batch', 'batches')}, model {', '.join(sorted(models)) or 'none'}"
    )


def _print_table(outcomes: list[Outcome]) -> None:
    numbers = ("score", "to 202 ms", "to result ms", "batch", "queue wait ms", "inference ms")
    made = table("sentence", "label", *numbers, right=numbers)
    for outcome in outcomes:
        sentence = printable(outcome.text, _SENTENCE_WIDTH)
        record = outcome.record
        if record is None or record.result is None:
            code = record.error.code if record and record.error else record and record.status
            why = f"{outcome.fault.code}: {outcome.fault.detail}" if outcome.fault else code
            row(made, sentence, f"{why}", *[""] * len(numbers))
            continue
        timings, batch = record.timings_ms, record.batch
        row(
            made,
            sentence,
            record.result.get("label") or in_brief(record.result),
            f"{record.result['score']:.4f}" if "score" in record.result else "",
            f"{outcome.accepted_ms:.1f}",
            f"{outcome.result_ms:.1f}",
            batch.size if batch else "",
            f"{timings.queue_wait:.1f}" if timings else "",
            f"{timings.inference:.1f}" if timings else "",
        )
    output().print(made)


def _show(lines: deque[str]) -> None:
    if lines:
        sys.stderr.write("".join(f"{line}\n" for line in ["what the pipeline said last:", *lines]))
