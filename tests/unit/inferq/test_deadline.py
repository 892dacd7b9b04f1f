"""Many deadlines of one length, behind one timer."""

import asyncio

import pytest

from inferq.deadline import Deadline, Deadlines


async def worked(deadlines: Deadlines, release: asyncio.Event, begun: list[Deadline]) -> str:
    """Wait for the release within a deadline; say how it ended."""
    deadline = deadlines.begin()
    begun.append(deadline)
    try:
        await release.wait()
    except asyncio.CancelledError:
        if not deadline.is_mine(asyncio.current_task()):
            raise
        return "over"
    finally:
        deadline.end()
    return "done"


async def test_who_is_done_in_time_notices_nothing() -> None:
    """Also while others of the same line run out of time."""
    deadlines, release, begun = Deadlines(0.05), asyncio.Event(), list[Deadline]()
    quick = asyncio.create_task(worked(deadlines, release, begun))
    await asyncio.sleep(0)
    release.set()
    assert await quick == "done"
    never = asyncio.Event()
    slow = [asyncio.create_task(worked(deadlines, never, begun)) for _ in range(3)]
    assert await asyncio.gather(*slow) == ["over"] * 3
    assert [one.expired for one in begun] == [False, True, True, True]
    assert not any(task.cancelling() for task in (quick, *slow))


async def test_they_end_in_the_order_in_which_they_began() -> None:
    """None before its own time; the line goes on after it was empty."""
    loop = asyncio.get_running_loop()
    deadlines, never = Deadlines(0.05), asyncio.Event()
    for _ in range(2):
        begun_s = loop.time()
        assert await worked(deadlines, never, []) == "over"
        assert loop.time() - begun_s >= 0.05


async def test_another_cancellation_is_not_taken_for_its_own() -> None:
    """Whoever is cancelled from outside stays cancelled, be its time over too."""
    deadlines, never, begun = Deadlines(60.0), asyncio.Event(), list[Deadline]()
    task = asyncio.create_task(worked(deadlines, never, begun))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = asyncio.create_task(worked(deadlines, never, begun))
    await asyncio.sleep(0)
    task.cancel()
    begun[1].over()
    with pytest.raises(asyncio.CancelledError):
        await task
