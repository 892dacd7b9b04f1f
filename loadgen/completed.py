"""A command that runs for long: its work to the end, or to Ctrl-C, and the exit status of either."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

import uvloop

from inferq.errors import OperatorError

NOT_DONE: Final = 2
INTERRUPTED: Final = 130
ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def completed(name: str, work: Coroutine[Any, Any, None], say: Callable[[str], None]) -> int:
    """Run a command's work to its end; `NOT_DONE` when it could not be done, `INTERRUPTED` after Ctrl-C or SIGTERM.

    Both end the work once, so that its pipeline is stopped in order; what comes after the first changes nothing.
    """
    interrupted = False

    async def whole() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def on_signal() -> None:
            nonlocal interrupted
            if task is not None and not interrupted:
                interrupted = True
                say(f"{name}: interrupted; the pipeline is stopped")
                task.cancel()

        for number in ENDING:
            loop.add_signal_handler(number, on_signal)
        try:
            await work
        finally:
            for number in ENDING:
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
