"""Questions that are asked at about the same time, answered together."""

import asyncio
from collections.abc import Sequence

import pytest

from inferq.gather import AT_ONCE, Asked, Gather
from tests.support import turns


class Worker:
    """Answers numbers by their doubles, once the piece is let through; notes what each piece was."""

    def __init__(self) -> None:
        self.pieces: list[list[int]] = []
        self.gates: list[asyncio.Event] = []
        self.begun = asyncio.Condition()
        self.open = True
        self.error: Exception | None = None

    async def __call__(self, asked: Sequence[Asked[int, int]]) -> None:
        gate = asyncio.Event()
        if self.open:
            gate.set()
        self.pieces.append([one.question for one in asked])
        self.gates.append(gate)
        async with self.begun:
            self.begun.notify_all()
        await gate.wait()
        if self.error is not None:
            raise self.error
        for question, future in asked:
            if not future.done():
                future.set_result(2 * question)

    async def begins(self, pieces: int) -> None:
        """Wait until so many pieces of work have begun."""
        async with asyncio.timeout(5.0), self.begun:
            await self.begun.wait_for(lambda: len(self.pieces) >= pieces)


async def test_what_is_asked_in_one_turn_is_one_piece_of_work() -> None:
    """Each asker has his own answer, in whatever order they wait; what is asked after is another piece."""
    worker = Worker()
    gather = Gather(worker)
    futures = [gather.ask(number) for number in (3, 1, 2, 1)]
    assert worker.pieces == [], "it begins once the turn is over"
    assert [await future for future in reversed(futures)] == [2, 4, 2, 6]
    assert worker.pieces == [[3, 1, 2, 1]]
    assert await gather.ask(5) == 10
    assert worker.pieces == [[3, 1, 2, 1], [5]]


async def test_tasks_of_one_turn_share_it() -> None:
    """As many submits do that one turn of the loop has read."""
    worker = Worker()
    gather = Gather(worker)

    async def submit(number: int) -> int:
        return await gather.ask(number)

    assert await asyncio.gather(*map(submit, range(50))) == [2 * number for number in range(50)]
    assert worker.pieces == [list(range(50))]


async def test_what_is_asked_while_enough_is_under_way_is_the_next_piece() -> None:
    """In its order, over however many turns it was asked; it begins as soon as any of those has ended."""
    worker = Worker()
    gather = Gather(worker)
    worker.open = False
    first = []
    for number in range(AT_ONCE):
        first.append(gather.ask(number))
        await worker.begins(number + 1)
    later = []
    for number in range(10, 15):
        later.append(gather.ask(number))
        await turns(3)
    assert worker.pieces == [[number] for number in range(AT_ONCE)]
    worker.gates[-1].set()
    await worker.begins(AT_ONCE + 1)
    assert worker.pieces[-1] == [10, 11, 12, 13, 14]
    assert await first[-1] == 2 * (AT_ONCE - 1)
    assert not any(future.done() for future in (*first[:-1], *later))
    for gate in worker.gates:
        gate.set()
    assert [await future for future in later] == [20, 22, 24, 26, 28]
    assert [await future for future in first] == [2 * number for number in range(AT_ONCE)]


async def test_no_more_pieces_are_under_way_than_may_be() -> None:
    """However often is asked, and whenever a piece ends."""
    worker = Worker()
    under_way = most = 0

    async def work(asked: Sequence[Asked[int, int]]) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await turns(3 * AT_ONCE)
        under_way -= 1
        await worker(asked)

    gather = Gather(work)
    futures = []
    for number in range(100):
        futures.append(gather.ask(number))
        await turns(number % 3)
    assert [await future for future in futures] == [2 * number for number in range(100)]
    assert sorted(question for piece in worker.pieces for question in piece) == list(range(100))
    assert most == AT_ONCE


async def test_a_caller_that_leaves_before_the_work_is_left_out_of_it() -> None:
    """The others are not touched; where nobody is left, there is no work."""
    worker = Worker()
    gather = Gather(worker)
    first, second, third = (gather.ask(number) for number in (1, 2, 3))
    second.cancel()
    assert [await first, await third] == [2, 6]
    assert worker.pieces == [[1, 3]]
    gather.ask(4).cancel()
    await turns(3)
    assert worker.pieces == [[1, 3]]
    assert await gather.ask(5) == 10


async def test_a_caller_that_leaves_during_the_work_leaves_the_others_alone() -> None:
    """Its question is worked on all the same."""
    worker = Worker()
    gather = Gather(worker)
    worker.open = False
    first, second, third = (gather.ask(number) for number in (1, 2, 3))
    await worker.begins(1)
    second.cancel()
    worker.gates[0].set()
    assert [await first, await third] == [2, 6]
    assert worker.pieces == [[1, 2, 3]]


async def test_callers_that_leave_while_they_wait_their_turn_are_no_piece() -> None:
    """The turn passes to whoever asks next."""
    worker = Worker()
    gather = Gather(worker)
    worker.open = False
    held = []
    for number in range(AT_ONCE):
        held.append(gather.ask(number))
        await worker.begins(number + 1)
    gone = [gather.ask(number) for number in (10, 11)]
    for future in gone:
        future.cancel()
    for gate in worker.gates:
        gate.set()
    assert [await future for future in held] == [2 * number for number in range(AT_ONCE)]
    worker.open = True
    assert await gather.ask(5) == 10
    assert worker.pieces == [*([number] for number in range(AT_ONCE)), [5]]


async def test_an_error_goes_to_all_who_have_no_answer_yet() -> None:
    """Who has one keeps it, who left hears nothing, and the next piece is not touched by it."""
    error = ValueError("no")

    async def work(asked: Sequence[Asked[int, int]]) -> None:
        if asked[0].question:
            asked[0].future.set_result(10 * asked[0].question)
            asked[1].future.cancel()
            raise error
        asked[0].future.set_result(0)

    gather = Gather(work)
    answered, left, third, fourth = (gather.ask(number) for number in (1, 2, 3, 4))
    assert await answered == 10
    for future in (third, fourth):
        with pytest.raises(ValueError, match="no"):
            await future
        assert future.exception() is error
    assert left.cancelled()
    assert await gather.ask(0) == 0


async def test_closing_gives_up_what_is_under_way() -> None:
    """In bounded time, and nothing of it is left behind."""
    worker = Worker()
    gather = Gather(worker)
    worker.open = False
    future = gather.ask(1)
    await worker.begins(1)
    async with asyncio.timeout(5.0):
        await gather.close()
    assert not future.done(), "its caller has a deadline of its own"
    future.cancel()
    await gather.close()
