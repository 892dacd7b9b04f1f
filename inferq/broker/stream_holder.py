"""What a consumer of streams does with entries, however it reads them: holds and settles them, and keeps its lease.

An ack that was not answered is repeated until it is, since a pending entry of a living consumer is nobody else's to
take. The lease is renewed by a task that does nothing else, so that no slow command can cost it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from inferq.background import spawn
from inferq.backoff import Backoff
from inferq.broker import leases
from inferq.broker.base import Deliver
from inferq.broker.held import Held
from inferq.broker.stream_scripts import BURY, SETTLE
from inferq.errors import Unavailable
from inferq.messages import DeadLetter, Delivery, encode_dead
from inferq.names import DEAD_LIMIT, GROUP, Names
from inferq.redis import Client, evaluate, evaluate_many, translated

# After Redis was away nobody's lease says anything, until all who live have renewed theirs.
GRACE_S: Final = 3.0
# An ack is tried this long: past it the process is stopping, or Redis is gone for good.
SETTLE_S: Final = 3_600.0
ABANDON_MOST: Final = 10_000
AWAY: Final = (RedisError, OSError, TimeoutError)

_log = structlog.get_logger(__name__)


class StreamHolder:
    """The entries that a consumer has; a delivery's token is the entry's id."""

    def __init__(self, redis: Client, names: Names, out: Held, *, name: str, deliver: Deliver) -> None:
        self._redis, self._names, self._out = redis, names, out
        self._name, self._deliver = name, deliver
        self._settled = asyncio.Event()
        self._claims_from_s = 0.0

    def held(self, delivery: Delivery) -> bool:
        """Whether the delivery is still to be settled."""
        return self._out.holds(delivery)

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge and delete entries; repeated until Redis has done it."""
        if not deliveries:
            return
        backoff = Backoff()
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        calls = [([queue], [GROUP, *ids]) for queue, ids in _by_queue(deliveries).items()]
        # Makes room, and wakes who reads, before the ack is sent: the read goes out behind it, in the same write.
        self._out.settling(deliveries)
        self._settled.set()
        while True:
            try:
                await evaluate_many(self._redis, SETTLE, calls)
            except AWAY as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise Unavailable("Redis took no ack") from error
                await asyncio.sleep(backoff.next_s())
            else:
                self._out.forget(deliveries)
                return

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let others have entries at once; raises `Unavailable`."""
        async with translated("take entries back"):
            for queue, ids in _by_queue(deliveries).items():
                await leases.abandon(self._redis, queue, self._name, ids)
        self._forget(deliveries)

    async def bury(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Keep the dead letter and delete the entry in one step; raises `Unavailable`."""
        async with translated("keep the dead letter"):
            await evaluate(
                self._redis,
                BURY,
                [self._names.dead_queue, delivery.queue],
                [DEAD_LIMIT, letter.job_id, encode_dead(letter), GROUP, delivery.token],
            )
        self._forget([delivery])

    async def _take_lease(self) -> asyncio.Task[None]:
        """Take the lease, and return the task that renews it; raises `Unavailable`."""
        async with translated("take the lease"):
            await leases.renew(self._redis, self._names, self._name)
        return spawn(self._live(), "streams-lease")

    async def _live(self) -> None:
        """Renew the lease."""
        while True:
            await asyncio.sleep(leases.RENEW_S)
            try:
                await leases.renew(self._redis, self._names, self._name)
            except AWAY as error:
                self._claims_from_s = asyncio.get_running_loop().time() + GRACE_S
                _log.debug("streams.lease_failed", error=type(error).__name__)

    async def _abandon_pending(self, queues: Iterable[str], *, but_held: bool = False) -> None:
        """Let others have what is pending under our name, all or ``but_held`` what is in no hands."""
        for queue in queues:
            rows: Any = await self._redis.xpending_range(queue, GROUP, "-", "+", ABANDON_MOST, self._name)
            ids = [row["message_id"] for row in rows]
            if ids := [one for one in ids if not (but_held and self._out.has(queue, one))]:
                await leases.abandon(self._redis, queue, self._name, ids)

    def _take(self, rows: Any, *, redelivered: bool = False) -> bool:
        taken = False
        for queue, entries in rows or ():
            taken = self._add(queue.decode(), entries, redelivered=redelivered) or taken
        return taken

    def _add(self, queue: str, entries: Iterable[leases.Entry], *, redelivered: bool) -> bool:
        taken, out = False, self._out
        free = out.free_of(queue)
        for entry_id, fields in entries:
            # What there is no room for stays pending under our name, and is found again.
            if not fields or not free or out.has(queue, entry_id):
                continue
            free -= 1
            delivery = Delivery(queue=queue, body=_message(fields), redelivered=redelivered, token=entry_id)
            out.add(delivery)
            self._deliver(delivery)
            taken = True
        return taken

    def _forget(self, deliveries: Iterable[Delivery]) -> None:
        self._out.forget(deliveries)
        self._settled.set()


def _message(fields: list[bytes]) -> bytes:
    """Find the message among an entry's fields, name by value; empty when somebody else wrote the entry."""
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        if name == b"m":
            return value
    return b""


def _by_queue(deliveries: Iterable[Delivery]) -> dict[str, list[bytes]]:
    grouped: dict[str, list[bytes]] = {}
    for delivery in deliveries:
        grouped.setdefault(delivery.queue, []).append(delivery.token)
    return grouped
