"""Messages of many bytes go a few at a time, and those of few beside them."""

import asyncio

import pytest

from ingress.admission import Crowded
from ingress.heavy import LIGHT_BYTES, Heavy
from tests.support import turns

SIZE = LIGHT_BYTES + 1


class Going:
    """Messages on their way, each until it is told that it has arrived."""

    def __init__(self, heavy: Heavy) -> None:
        self._heavy = heavy
        self.under_way: list[str] = []
        self._arrived: dict[str, asyncio.Event] = {}

    async def send(self, name: str, size: int = SIZE) -> None:
        """Send one, and wait until it has arrived."""
        self._arrived[name] = asyncio.Event()
        async with self._heavy.turn(size):
            self.under_way.append(name)
            await self._arrived[name].wait()
            self.under_way.remove(name)

    def arrive(self, name: str) -> None:
        """Let one arrive."""
        self._arrived[name].set()


async def test_heavy_ones_wait_in_order_and_light_ones_never() -> None:
    """As many go as have room together; one that is larger than the room goes alone."""
    heavy = Heavy(most_bytes=2 * SIZE)
    going = Going(heavy)
    async with asyncio.TaskGroup() as tasks:
        for name, size in (
            ("a", SIZE),
            ("b", SIZE),
            ("large", 3 * SIZE),
            ("c", SIZE),
            ("light", LIGHT_BYTES),
        ):
            tasks.create_task(going.send(name, size))
            await turns(5)
        assert going.under_way == ["a", "b", "light"]
        assert (heavy.bytes, heavy.waiting_bytes) == (2 * SIZE, 4 * SIZE)
        going.arrive("a")
        await turns(5)
        # The next one in order has no room beside the other, and is not overtaken.
        assert going.under_way == ["b", "light"]
        going.arrive("b")
        await turns(5)
        assert going.under_way == ["light", "large"]
        going.arrive("large")
        await turns(5)
        assert going.under_way == ["light", "c"]
        going.arrive("c")
        going.arrive("light")
    assert (heavy.bytes, heavy.waiting_bytes) == (0, 0)


async def test_no_more_wait_than_may() -> None:
    """A further one is refused at once, and nothing of it is left; the first to wait may have any size."""
    heavy = Heavy(most_bytes=SIZE, most_waiting_bytes=2 * SIZE)
    going = Going(heavy)
    async with asyncio.TaskGroup() as tasks:
        for name, size in (("a", SIZE), ("b", 3 * SIZE)):
            tasks.create_task(going.send(name, size))
            await turns(5)
        with pytest.raises(Crowded):
            await going.send("c")
        assert heavy.waiting_bytes == 3 * SIZE
        going.arrive("a")
        await turns(5)
        going.arrive("b")
    assert (heavy.bytes, heavy.waiting_bytes) == (0, 0)


@pytest.mark.parametrize("let_in", [False, True], ids=["while it waits", "when it has just been let in"])
async def test_one_that_gives_up_makes_room(let_in: bool) -> None:
    """For those behind it, whenever it does."""
    heavy = Heavy(most_bytes=SIZE)
    going = Going(heavy)
    first, second, third = (asyncio.create_task(going.send(name)) for name in ("a", "b", "c"))
    await turns(5)
    going.arrive("a")
    if let_in:
        # It has been let in, and has not run yet.
        await turns(1)
        assert (first.done(), going.under_way) == (True, [])
    second.cancel()
    await turns(5)
    await first
    assert second.cancelled()
    assert going.under_way == ["c"]
    going.arrive("c")
    await third
    assert (heavy.bytes, heavy.waiting_bytes) == (0, 0)
