"""Whose shards are whose, in Redis: leases that are claimed, renewed, given up, and end with their holder.

What follows from them, `inferq.shardplan` says. Both brokers use the same leases.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from inferq.names import Names
from inferq.redis import Client, evaluate, translated
from inferq.shard_scripts import LEAVE, LOOK, TEND
from inferq.shardplan import Routes

LEASE_MS: Final = 5_000
# A lease that has not been renewed for so long is late; they are renewed once a second.
LATE_MS: Final = 2_500
# How long what is known of shards outlives the last batcher.
KEPT_MS: Final = 86_400_000


class ShardLeases:
    """The leases on the shards of one model."""

    def __init__(self, redis: Client, names: Names, model: str) -> None:
        self._redis = redis
        self._keys = [names.shard_members(model), names.shard_owners(model), names.shard_newcomers(model)]

    async def tend(self, me: str, *, claim: Collection[int] = (), give_up: Collection[int] = ()) -> Routes:
        """Renew a batcher's leases, give some up, claim others if they are free; return what holds then.

        Raises:
            Unavailable: Redis is away.
        """
        args = [me, LEASE_MS, KEPT_MS, LATE_MS, len(claim), *sorted(claim), *sorted(give_up)]
        async with translated("renew the leases on shards"):
            return _routes(await evaluate(self._redis, TEND, self._keys, args))

    async def look(self) -> Routes:
        """Return what holds, and change nothing; raises `Unavailable`."""
        async with translated("answer"):
            return _routes(await evaluate(self._redis, LOOK, self._keys, []))

    async def leave(self, me: str) -> None:
        """End a batcher's leases at once; raises `Unavailable`."""
        async with translated("end the leases on shards"):
            await evaluate(self._redis, LEAVE, self._keys, [me])


def _routes(answer: Sequence[Any]) -> Routes:
    members, pairs, newcomers = answer
    owners = zip(pairs[::2], pairs[1::2], strict=True)
    return Routes(
        living=frozenset(member.decode() for member in members),
        owners={int(shard): owner.decode() for shard, owner in owners},
        young=frozenset(member.decode() for member in newcomers),
    )
