"""A command that runs for long ends with a status that says how."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferq.errors import OperatorError
from loadgen.completed import INTERRUPTED, NOT_DONE, completed
from loadgen.reports.environment import ROOT
from tests.support import eventually


@pytest.fixture(autouse=True)
def as_on_a_terminal() -> Iterator[None]:
    """Whoever started the tests may have ignored signals, as nohup and a shell's background do."""
    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_that_ends_a_command_lets_it_clean_up(number: signal.Signals) -> None:
    """Ctrl-C, a timeout's SIGTERM, and a terminal that is closed."""
    ends: list[str] = []

    async def working() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            ends.append("cleaned up")

    assert completed("sweep", working(), ends.append) == INTERRUPTED
    assert ends == ["sweep: interrupted; the pipeline is stopped", "cleaned up"]


def test_a_hangup_that_is_ignored_ends_nothing() -> None:
    """As after nohup."""
    said: list[str] = []

    async def working() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert completed("sweep", working(), said.append) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert said == []


HUNG_UP = """
import asyncio, pathlib, sys
from loadgen.completed import completed

def say(text):
    sys.stderr.write(text)
    sys.stderr.flush()

async def working():
    pathlib.Path("begun").touch()
    try:
        await asyncio.Event().wait()
    finally:
        say("what was measured")
        pathlib.Path("written").touch()

raise SystemExit(completed("sweep", working(), say))
"""


async def test_a_terminal_that_is_closed_takes_nothing_with_it(tmp_path: Path) -> None:
    """Nothing can be written to it any more; what was measured still is, to its file."""
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HUNG_UP),
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    try:
        await eventually((tmp_path / "begun").exists)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(10):
            assert await process.wait() == INTERRUPTED
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (tmp_path / "written").exists()


def test_work_that_ends_is_done() -> None:
    """0, and nothing is said."""
    said: list[str] = []

    async def fine() -> None:
        await asyncio.sleep(0)

    assert completed("sweep", fine(), said.append) == 0
    assert said == []
