"""Who is read when many send much."""

import asyncio

from notifier.readers import Readers


class Sender:
    """Sends without an end: whenever it was read it waits again."""

    def __init__(self, readers: Readers, reads: list["Sender"]) -> None:
        self._readers, self._reads = readers, reads
        readers.wait(self)

    def read_on(self) -> None:
        """Be read, and wait again."""
        self._reads.append(self)
        self._readers.wait(self)


async def test_one_is_read_in_a_turn_of_the_loop_each_in_its_turn() -> None:
    """However many wait."""
    readers, reads = Readers(), list[Sender]()
    senders = [Sender(readers, reads) for _ in range(3)]
    seen = []
    for _ in range(6):
        await asyncio.sleep(0)
        seen.append(len(reads))
    assert seen == list(range(seen[0], seen[0] + 6))
    assert reads[:6] == [*senders, *senders][: len(reads[:6])]


async def test_who_was_read_and_has_nothing_more_is_forgotten() -> None:
    """And the next one to come is read all the same."""
    readers, read = Readers(), asyncio.Event()

    class Once:
        def read_on(self) -> None:
            read.set()

    for _ in range(2):
        readers.wait(Once())
        async with asyncio.timeout(5.0):
            await read.wait()
        read.clear()
