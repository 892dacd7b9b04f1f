"""A command that runs for long ends with a status that says how."""

import asyncio
import os
import signal

from inferq.errors import OperatorError
from loadgen.completed import INTERRUPTED, NOT_DONE, completed


def test_a_command_that_cannot_be_carried_out_ends_with_one_line() -> None:
    """With the command's name, and 2."""
    said: list[str] = []

    async def failing() -> None:
        raise OperatorError("there is no such model")

    assert completed("sweep", failing(), said.append) == NOT_DONE
    assert said == ["sweep: there is no such model"]


def test_an_interrupt_ends_the_work_once_and_in_order() -> None:
    """The second one changes nothing, and an error on the way out is not what ended it."""
    said: list[str] = []

    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
            raise ConnectionError("the generator is gone") from None

    assert completed("sweep", interrupted(), said.append) == INTERRUPTED
    assert said == ["sweep: interrupted; the pipeline is stopped"]


def test_work_that_ends_is_done() -> None:
    """0, and nothing is said."""
    said: list[str] = []

    async def fine() -> None:
        await asyncio.sleep(0)

    assert completed("sweep", fine(), said.append) == 0
    assert said == []
