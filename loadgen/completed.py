"""A command that runs for long: its work to the end, or to a signal that ends it, and the exit status of either."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import uvloop

from inferq.errors import OperatorError

NOT_DONE: Final = 2
INTERRUPTED: Final = 130
STREAMS: Final = (1, 2)
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def completed(name: str, work: Coroutine[Any, Any, None], say: Callable[[str], None]) -> int:
    """Run a command's work to its end; `NOT_DONE` when it could not be done, `INTERRUPTED` after a signal of `ENDING`.

    These are Ctrl-C, SIGTERM and a terminal that is closed. They end the work once, so that its pipeline is stopped in
    order; what comes after the first changes nothing.
    """
    interrupted = False
    terminals = [stream for stream in STREAMS if os.isatty(stream)]

    async def whole() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def on_signal(number: signal.Signals) -> None:
            nonlocal interrupted
            if number == signal.SIGHUP:
                _forget(terminals)
            if task is not None and not interrupted:
                interrupted = True
                say(f"{name}: interrupted; the pipeline is stopped")
                task.cancel()

        # Whoever ignores hangups, as nohup does, wants the work to go on.
        heard = [one for one in ENDING if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, on_signal, number)
        try:
            await work
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    try:
        uvloop.run(whole())
    except (OperatorError, OSError) as error:
        # An interrupt reaches the generator as well, which may be gone before we are.
        if not interrupted:
            say(f"{name}: {error}")
            return NOT_DONE
    except asyncio.CancelledError:
        pass  # It was interrupted, which is said already.
    return INTERRUPTED if interrupted else 0


def _forget(terminals: Iterable[int]) -> None:
    """Let streams of a closed terminal lead nowhere: writing to it fails, and would end the work half undone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in terminals:
        os.dup2(nowhere, stream)
    os.close(nowhere)
