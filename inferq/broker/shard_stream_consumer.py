"""A batcher's end of many streams that come and go, as under hash routing.

To wait in the server for a hundred streams, one entry each, would let in more than the prefetch. So nothing is waited
for there: a bell, one pub/sub channel for all, says which streams have got entries, and those that may hold something
are read when there is room. A bell that was not heard is made good by a look at all streams every `leases.RENEW_S`.

Only what belongs to the streams of the moment is taken: what a dead batcher held is claimed, and what a lost reply left
behind is found, by whoever has the shard, and by nobody else.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import structlog

from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.broker import leases
from inferq.broker.base import Deliver
from inferq.broker.held import Held
from inferq.broker.stream_consumer import RECONCILE_EVERY, ensure_groups
from inferq.broker.stream_holder import AWAY, StreamHolder
from inferq.broker.stream_scripts import READ
from inferq.jobs import Priority
from inferq.names import GROUP, Names
from inferq.redis import CONNECT_TIMEOUT_S, Client, evaluate, translated
from inferq.subscription import Subscription, open_subscription

PING_EVERY_S: Final = 5.0
SILENCE_S: Final = 10.0

_log = structlog.get_logger(__name__)


class ShardStreamConsumer(StreamHolder):
    """Implements `inferq.broker.base.ShardConsumer`; ``model`` is whose shards it may be told to take on."""

    def __init__(
        self,
        redis: Client,
        url: str,
        names: Names,
        model: str,
        *,
        prefetch: int,
        name: str,
        deliver: Deliver,
    ) -> None:
        shards = range(names.shards)
        self._first = frozenset(names.queue(model, Priority.INTERACTIVE, shard) for shard in shards)
        everything = [queue for shard in shards for queue in names.shard_queues(model, shard)]
        super().__init__(
            redis, names, Held(everything, prefetch, first=self._first), name=name, deliver=deliver
        )
        self._url, self._prefetch = url, prefetch
        # Streams that are ours, and of these the ones that may hold something.
        self._present: dict[str, None] = {}
        self._dirty: dict[str, None] = {}
        self._turn = 0
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = self._ready = False
        self._going = asyncio.Event()
        self._going.set()
        self._looks = 0
        self._next_look_s = 0.0
        self._left_over = False

    @property
    def ready(self) -> bool:
        """Whether the last read worked."""
        return self._ready and not self._stopping

    async def start(self) -> None:
        """Take the lease and begin to read; raises `Unavailable`."""
        lease = await self._take_lease()
        self._tasks = [spawn(self._read(), "shards-read"), spawn(self._listen(), "shards-bell"), lease]

    async def take_on(self, queues: Sequence[str]) -> None:
        """Read these streams too, what their former consumers left first; raises `Unavailable`."""
        async with translated("make the queues"):
            await ensure_groups(self._redis, queues)
        self._present |= dict.fromkeys(queues)
        self._next_look_s = 0.0
        self._left_over = True
        self._settled.set()

    async def let_go(self, queues: Sequence[str]) -> None:
        """Read these streams no more; returns when what was read of them has come."""
        async with self._reading:
            for queue in queues:
                self._present.pop(queue, None)
                self._dirty.pop(queue, None)

    def out_of(self, queues: Sequence[str]) -> int:
        """Return how many deliveries of these streams are out."""
        return self._out.out_of(queues)

    async def leave_to_others(self, queues: Sequence[str]) -> None:
        """Let others have what a lost reply may have left under our name; raises `Unavailable`."""
        async with translated("take entries back"):
            await self._abandon_pending(queues, but_held=True)

    async def pause(self) -> None:
        """Read nothing, nor take anything over; a read that is under way may still bring something."""
        self._going.clear()

    async def resume(self) -> None:
        """Read again, everything first."""
        self._next_look_s = 0.0
        self._left_over = True
        self._going.set()

    async def stop(self) -> None:
        """Read no more; the lease lives on, so that what is held can be finished."""
        self._stopping = True
        await end(*self._tasks[:2])

    async def close(self) -> None:
        """Stop, give back whatever is still ours, and end the lease."""
        await self.stop()
        await end(*self._tasks)
        try:
            async with asyncio.timeout(2.0):
                await self._abandon_pending(tuple(self._present))
                await leases.release(self._redis, self._names, self._name)
        except AWAY:
            _log.warning("streams.close_failed", cure="the lease ends by itself within seconds")

    async def _read(self) -> None:
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._going.wait()
                self._settled.clear()
                async with self._reading:
                    await self._look_around(loop.time())
                    read = bool(self._out.free and self._dirty) and await self._read_dirty()
                self._ready = True
                backoff.reset()
                if not read:
                    await self._wait(self._next_look_s - loop.time())
            except AWAY as error:
                if self._ready or backoff.tries == 0:
                    _log.warning("streams.read_failed", error=type(error).__name__)
                self._ready, self._left_over = False, True
                await asyncio.sleep(backoff.next_s())
                await self._mend()

    async def _wait(self, timeout_s: float) -> None:
        """Wait for a bell, for room, for another stream, or for the next look."""
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._settled.wait()
        except TimeoutError:
            pass

    async def _mend(self) -> None:
        """Make groups that vanished with their streams."""
        # What cannot be made now, the next read tells of.
        with suppress(*AWAY):
            await ensure_groups(self._redis, tuple(self._present))

    async def _look_around(self, now_s: float) -> None:
        """Every `RENEW_S`, take over from the dead, and look at all streams, whether a bell was heard or not."""
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + leases.RENEW_S
        self._looks += 1
        self._dirty = dict(self._present)
        queues = tuple(self._present)
        if now_s >= self._claims_from_s:
            # Beyond the room it stays pending under our name, and is found again: no more than one batcher can hold.
            found = await leases.claim_many(self._redis, self._names, queues, self._name, self._prefetch)
            for queue, entries in zip(queues, found, strict=True):
                self._add(queue, entries, redelivered=True)
                self._left_over |= any(fields and not self._out.has(queue, one) for one, fields in entries)
        if queues and (self._left_over or self._looks % RECONCILE_EVERY == 0):
            await self._reconcile(queues)

    async def _read_dirty(self) -> bool:
        """Take what lies ready in the streams that may hold something, another one first each time."""
        out, self._turn = self._out, self._turn + 1
        dirty, self._dirty = self._dirty, {}
        first = _turned([queue for queue in dirty if queue in self._first], self._turn)
        later = _turned([queue for queue in dirty if queue not in self._first], self._turn)
        args = [GROUP, self._name, out.free, out.later_first, out.later_free, len(first)]
        try:
            taken = self._take(await evaluate(self._redis, READ, [*first, *later], args))
        except AWAY:
            self._dirty = dict(self._present)
            raise
        # A kind that had room to the end was read to the end.
        for kind, room in ((first, out.free), (later, out.later_free)):
            if not room:
                self._dirty |= {queue: None for queue in kind if queue in self._present}
        return taken

    async def _reconcile(self, queues: Sequence[str]) -> None:
        """Deliver what is pending under our name and in nobody's hands."""
        rows = await self._redis.commands.call(
            "XREADGROUP", "GROUP", GROUP, self._name, "COUNT", self._prefetch,
            "STREAMS", *queues, *["0"] * len(queues),
        )  # fmt: skip  # as the command reads
        self._take(rows, redelivered=True)
        self._left_over = False
        for stream, entries in rows or ():
            queue = stream.decode()
            # Pending without an entry: there is nothing to run; its record is the sweeper's to end.
            if deleted := [entry_id for entry_id, fields in entries if not fields]:
                await self._redis.xack(queue, GROUP, *deleted)
            self._left_over |= any(fields and not self._out.has(queue, one) for one, fields in entries)

    async def _listen(self) -> None:
        """Hear the bell, over a connection that is made again when it is lost."""
        backoff = Backoff()
        while True:
            link: Subscription | None = None
            try:
                link = await open_subscription(
                    self._url,
                    self._rung,
                    timeout_s=CONNECT_TIMEOUT_S,
                    ping_every_s=PING_EVERY_S,
                    silence_s=SILENCE_S,
                )
                await link.hear(self._names.queued_bell)
                self._next_look_s = 0.0
                self._settled.set()
                backoff.reset()
                await link.end()
            except AWAY as error:
                if backoff.tries == 0:
                    _log.warning("shards.bell_lost", error=type(error).__name__)
                await asyncio.sleep(backoff.next_s())
            finally:
                if link is not None:
                    link.abort()

    def _rung(self, _: bytes, message: bytes) -> None:
        for queue in message.decode().split(" "):
            if queue in self._present:
                self._dirty[queue] = None
                self._settled.set()


def _turned(queues: list[str], turn: int) -> list[str]:
    """Return queues in their order, beginning with another one each turn."""
    at = turn % len(queues) if queues else 0
    return [*islice(queues, at, None), *islice(queues, at)]
