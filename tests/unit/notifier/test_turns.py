"""How the work that clients ask for is shared out."""

import asyncio
from itertools import pairwise

from notifier.turns import Turns


async def test_a_little_work_waits_for_nothing() -> None:
    """As long as this turn of the loop has steps left."""
    turns, done = Turns(10), []

    async def work() -> None:
        await turns.take(5)
        done.append(1)

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    await asyncio.sleep(0)
    assert len(done) == 2
    await asyncio.gather(*tasks)


async def test_much_work_is_done_in_order_and_in_turns_of_the_loop() -> None:
    """One at a time where each takes a whole turn; who is cancelled takes none."""
    turns, done = Turns(10), []

    async def work(number: int) -> None:
        await turns.take(500)
        done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(6)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    seen = [len(done)]
    while len(done) < 5:
        await asyncio.sleep(0)
        seen.append(len(done))
    assert done == [0, 1, 3, 4, 5]
    assert all(after - before <= 1 for before, after in pairwise(seen))
    assert tasks[2].cancelled()
