"""Questions of one turn of the loop, answered together."""

import asyncio
from collections.abc import Sequence

import pytest

from inferq.gather import Gather


class Worker:
    """Answers each number by its double once it is let through; notes what it was asked in one go."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: BaseException | None = None

    async def __call__(self, questions: Sequence[int]) -> list[int]:
        self.asked.append(list(questions))
        self.begun.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [2 * question for question in questions]


async def test_what_is_asked_in_one_turn_is_one_piece_of_work() -> None:
    """Each asker has his own answer, in whatever order they wait; the next turn is another piece."""
    worker = Worker()
    gather = Gather(worker)
    futures = [gather.ask(number) for number in (3, 1, 2, 1)]
    assert worker.asked == [], "it begins once the turn is over"
    assert await asyncio.gather(*reversed(futures)) == [2, 4, 2, 6]
    assert worker.asked == [[3, 1, 2, 1]]
    assert await gather.ask(5) == 10
    assert worker.asked == [[3, 1, 2, 1], [5]]


async def test_tasks_of_one_turn_share_it() -> None:
    """As many submits do that one turn of the loop has read."""
    worker = Worker()
    gather = Gather(worker)

    async def submit(number: int) -> int:
        return await gather.ask(number)

    assert await asyncio.gather(*map(submit, range(50))) == [2 * number for number in range(50)]
    assert worker.asked == [list(range(50))]


async def test_the_next_turn_does_not_wait_for_the_work_of_the_last() -> None:
    """Two pieces may be under way at a time, and end in any order."""
    worker = Worker()
    gather = Gather(worker)
    worker.gate.clear()
    slow = gather.ask(1)
    await worker.begun.wait()
    held, worker.gate = worker.gate, asyncio.Event()
    worker.gate.set()
    assert await gather.ask(2) == 4
    assert not slow.done()
    held.set()
    assert await slow == 2


@pytest.mark.parametrize("begun", [False, True], ids=["before", "during"])
async def test_a_caller_that_is_cancelled_leaves_the_others_alone(begun: bool) -> None:
    """Its question is worked on all the same, since others may have seen it, and its place in the order stays."""
    worker = Worker()
    gather = Gather(worker)
    worker.gate.clear()
    first, second, third = (gather.ask(number) for number in (1, 2, 3))
    if begun:
        await worker.begun.wait()
    second.cancel()
    worker.gate.set()
    assert [await first, await third] == [2, 6]
    assert second.cancelled()
    assert worker.asked == [[1, 2, 3]]


async def test_an_error_goes_to_every_caller_of_its_turn() -> None:
    """The one who left hears nothing, and the next turn is not touched by it."""
    worker = Worker()
    gather = Gather(worker)
    worker.error = ValueError("no")
    first, left, last = (gather.ask(number) for number in (1, 2, 3))
    left.cancel()
    await asyncio.wait([first, last])
    assert [first.exception(), last.exception()] == [worker.error, worker.error]
    worker.error = None
    assert await gather.ask(4) == 8


async def test_work_that_is_cut_off_leaves_nobody_waiting() -> None:
    """Whoever asked is told, as by any cancellation."""
    worker = Worker()
    gather = Gather(worker)
    worker.error = asyncio.CancelledError()
    first, second = gather.ask(1), gather.ask(2)
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2


async def test_work_that_answers_too_few_is_a_fault_that_is_told() -> None:
    """No caller waits for ever for an answer that is not there."""

    async def short(questions: Sequence[int]) -> list[int]:
        return [0] * (len(questions) - 1)

    gather = Gather(short)
    first, last = gather.ask(1), gather.ask(2)
    async with asyncio.timeout(5.0):
        assert await first == 0
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await last
