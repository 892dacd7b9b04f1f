"""Runs a local pipeline around some work, with the signals of a terminal: once stops in order, twice kills at once."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from inferq.local import LocalPipeline
from inferq.modelfolder import resolve
from inferq.modelspec import parse as parse_model
from inferq.settings import Settings

INTERRUPTED: Final = 130
_REPORT_EVERY_S: Final = 3.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_with(
    pipeline: LocalPipeline, work: Callable[[], Awaitable[int]], *, say: Callable[[str], None]
) -> int | None:
    """Start the pipeline, do the work, stop the pipeline; None when a signal came first.

    Raises:
        OperatorError: the pipeline cannot start.
    """
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            pipeline.kill()
        else:
            stopping.set()
            # Before this loop's next turn, in which a child may be seen dead of what comes next.
            pipeline.retire()
            say("stopping; a second signal kills at once")

    loop = asyncio.get_running_loop()
    # What the starter had us ignore, as nohup does, stays ignored.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, on_signal)
    doing = asyncio.create_task(_start_and_do(pipeline, work), name="work")
    stopped = asyncio.create_task(stopping.wait(), name="signal")
    try:
        await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        await asyncio.wait({doing})
        return None if doing.cancelled() else doing.result()
    finally:
        stopped.cancel()
        await pipeline.stop()
        for number in heeded:
            loop.remove_signal_handler(number)


def prepare_model(settings: Settings, say: Callable[[str], None]) -> None:
    """Check the model before anything is started, downloading it where need be; raises OperatorError."""
    said: tuple[str, float] = ("", 0.0)

    def report(what: str, done_bytes: int, total_bytes: int) -> None:
        nonlocal said
        now = time.monotonic()
        if what != said[0] or now - said[1] > _REPORT_EVERY_S:
            said = what, now
            say(progress_text(what, done_bytes, total_bytes))

    resolve(parse_model(settings.model), cache_dir=settings.cache_path, progress=report)


def progress_text(what: str, done_bytes: int, total_bytes: int) -> str:
    """Return progress as one line."""
    return what + (f" {done_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB" if total_bytes else "")


def for_eyes(settings: Settings) -> str:
    """Return the log format of the services: their output passes through us, so we see the terminal for them."""
    if settings.log_format != "auto":
        return settings.log_format
    return "console" if sys.stderr.isatty() else "json"


async def _start_and_do(pipeline: LocalPipeline, work: Callable[[], Awaitable[int]]) -> int:
    await pipeline.start()
    return await work()
