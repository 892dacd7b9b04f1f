"""A batcher's end of the streams: reads while there is room, and takes over from the dead.

Three things can go wrong between Redis and us. A reply that was lost on its way leaves entries pending under our name
that nobody holds: `_reconcile` looks for them. A stream that vanished has no group: it is made again. For an ack that
was not answered see `inferq.broker.stream_holder`.

One task takes entries in, whether new, taken over or found again, so that the prefetch is kept to the entry. While it
waits in the server for a stream, an ack may make room for another stream that could not be waited on: it reads that one
beside the wait.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.broker import leases
from inferq.broker.base import Deliver
from inferq.broker.held import Held
from inferq.broker.stream_holder import AWAY, StreamHolder
from inferq.broker.stream_scripts import READ
from inferq.names import GROUP, Names
from inferq.pipeline import Pipeline
from inferq.redis import Client, evaluate

BLOCK_MS: Final = 1_000
# While there is room for fewer entries than there are streams, some of them are not waited on.
SHORT_BLOCK_MS: Final = 50
RECONCILE_EVERY: Final = 5  # looks; so about five seconds

_log = structlog.get_logger(__name__)


class StreamConsumer(StreamHolder):
    """Implements `inferq.broker.base.Consumer`; a token is the entry's id. ``reader`` is its own, to wait with."""

    def __init__(
        self,
        redis: Client,
        reader: Pipeline,
        names: Names,
        queues: Sequence[str],
        *,
        prefetch: int,
        name: str,
        deliver: Deliver,
    ) -> None:
        super().__init__(redis, names, Held(queues, prefetch), name=name, deliver=deliver)
        self._reader, self._queues, self._prefetch = reader, tuple(queues), prefetch
        self._awaiting: asyncio.Task[Any] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._going = asyncio.Event()
        self._going.set()
        self._ready = False
        self._looks = 0
        self._next_look_s = 0.0

    @property
    def ready(self) -> bool:
        """Whether the last read worked."""
        return self._ready and not self._stopping

    async def start(self) -> None:
        """Take the lease and begin to read; raises `Unavailable`."""
        lease = await self._take_lease()
        self._tasks = [spawn(self._read(), "streams-read"), lease]

    async def pause(self) -> None:
        """Read nothing new; a read that waits in the server may still bring one entry of each stream."""
        self._going.clear()

    async def resume(self) -> None:
        """Read again."""
        self._going.set()

    async def stop(self) -> None:
        """Read no more; the lease lives on, so that what is held can be finished."""
        self._stopping = True
        await end(*self._tasks[:1], self._awaiting)
        # So that the server gives nothing more to a read that nobody waits for.
        await self._reader.close()

    async def close(self) -> None:
        """Stop, give back whatever is still ours, and end the lease."""
        await self.stop()
        await end(*self._tasks)
        try:
            async with asyncio.timeout(2.0):
                await self._abandon_pending(self._queues)
                await leases.release(self._redis, self._names, self._name)
        except AWAY:
            _log.warning("streams.close_failed", cure="the lease ends by itself within seconds")

    async def _read(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._reconcile()
                if not self._ready:
                    _log.info("streams.reading", queues=list(self._queues))
                self._ready = True
                backoff.reset()
                while True:
                    await self._look_around()
                    self._settled.clear()
                    if not self._going.is_set():
                        await self._stand()
                    elif not self._out.free or not await self._read_in_order():
                        await self._wait()
            except AWAY as error:
                if self._ready or backoff.tries == 0:
                    _log.warning("streams.read_failed", error=type(error).__name__)
                self._ready = False
                await asyncio.sleep(backoff.next_s())
                await self._mend()

    async def _mend(self) -> None:
        """Make groups that vanished with their streams."""
        # What cannot be made now, the next read tells of.
        with suppress(*AWAY):
            await ensure_groups(self._redis, self._queues)

    async def _look_around(self) -> None:
        """Every `RENEW_S`, take over from the dead and look for what was lost on its way to us."""
        now = asyncio.get_running_loop().time()
        if now < self._next_look_s:
            return
        self._next_look_s = now + leases.RENEW_S
        self._looks += 1
        if now >= self._claims_from_s and self._going.is_set():
            for queue in self._queues:
                entries = await leases.claim(
                    self._redis, self._names, queue, self._name, self._out.free_of(queue)
                )
                self._add(queue, entries, redelivered=True)
        if self._looks % RECONCILE_EVERY == 0:
            await self._reconcile()

    async def _read_in_order(self) -> bool:
        """Take what lies ready, the first stream before later ones but for what is theirs."""
        out = self._out
        args = [GROUP, self._name, out.free, out.later_first, out.later_free, 1]
        return self._take(await evaluate(self._redis, READ, self._queues, args))

    async def _wait(self) -> None:
        """Wait in the server for an entry of each stream that may have one more out, and for room for others."""
        out = self._out
        if self._awaiting is None and (queues := out.may_await()):
            all_that_may = all(queue in queues or not out.free_of(queue) for queue in self._queues)
            out.expect(queues)
            # One of each: a read of several streams counts per stream, and the next round takes the rest in order.
            options = ("COUNT", 1, "BLOCK", BLOCK_MS if all_that_may else SHORT_BLOCK_MS, "STREAMS")
            self._awaiting = asyncio.create_task(
                self._reader.call(
                    "XREADGROUP", "GROUP", GROUP, self._name, *options, *queues, *[">"] * len(queues)
                ),
                name="streams-wait",
            )
        if self._awaiting is None:
            await self._settled.wait()
            return
        waits: set[asyncio.Task[Any]] = {self._awaiting}
        if len(out.awaited) < len(self._queues):
            waits.add(asyncio.create_task(self._settled.wait(), name="streams-room"))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits - {self._awaiting}:
                wait.cancel()
        if self._awaiting.done():
            done, self._awaiting = self._awaiting, None
            out.expect(())
            self._take(done.result())

    async def _stand(self) -> None:
        """Take in what the last wait brings, and let some time pass."""
        if self._awaiting is not None:
            await self._wait()
            return
        try:
            async with asyncio.timeout(leases.RENEW_S):
                await self._going.wait()
        except TimeoutError:
            pass

    async def _reconcile(self) -> None:
        """Deliver what is pending under our name and in nobody's hands."""
        for queue in self._queues:
            rows = await self._redis.commands.call(
                "XREADGROUP", "GROUP", GROUP, self._name, "COUNT", self._prefetch, "STREAMS", queue, "0"
            )
            self._take(rows, redelivered=True)
            # Pending without an entry: there is nothing to run; its record is the sweeper's to end.
            deleted = [entry_id for _, entries in rows or () for entry_id, fields in entries if not fields]
            if deleted:
                await self._redis.xack(queue, GROUP, *deleted)


async def ensure_groups(redis: Client, streams: Sequence[str]) -> None:
    """Make streams and their consumer groups where they are missing."""
    made = await redis.commands.call_many(
        [("XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM") for stream in streams]
    )
    for error in made:
        if isinstance(error, Exception) and "BUSYGROUP" not in str(error):
            raise error
