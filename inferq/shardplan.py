"""What a batcher does about shards: which to claim, which to let go, which it has lost. Pure.

Rules:

1. Redis says who lives and whose each shard is; the ring (`inferq.ring`) says whose it is to be.
2. A batcher claims what is nobody's and is to be its own. What is a living batcher's it waits for: that one sees the
   same, and lets go by itself.
3. What is a dead batcher's is nobody's. But when Redis itself was away, all leases have ended and nobody's end says
   anything: until all who live can have renewed theirs, only what no batcher owned at all is claimed.
4. A batcher lets go of what is to be another's: it takes no more of it, ends or gives back what it has, and only then
   gives up the lease. Until then nobody else consumes the shard, so equal inputs do not meet two batchers.
5. A member that came just now is given nothing yet: it may stand for one that died just now, whose leases have not
   ended, and then those shards are for it and nobody else's need move. What is nobody's it claims at once.
6. What is not its own any more, as when it was frozen and others took over, it has lost: it stops consuming at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from inferq.ring import assign


@dataclass(frozen=True, kw_only=True)
class Routes:
    """What Redis says: who lives, and whose each owned shard is, be the owner alive or not.

    ``young`` are those who came just now, or while somebody's renewal was late.
    """

    living: frozenset[str]
    owners: Mapping[int, str]
    young: frozenset[str] = frozenset()

    def of(self, member: str) -> frozenset[int]:
        """The shards that a member owns."""
        return frozenset(shard for shard, owner in self.owners.items() if owner == member)

    def unowned(self, shards: int) -> list[int]:
        """The shards that no living member owns."""
        return [shard for shard in range(shards) if self.owners.get(shard) not in self.living]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do: claim these, let these go, stop those that were lost."""

    claim: frozenset[int]
    let_go: frozenset[int]
    lost: frozenset[int]


def plan(
    routes: Routes, me: str, *, consumed: Collection[int], shards: int, trust_deaths: bool = True
) -> Plan:
    """Return what a member does now; ``consumed`` are the shards that it consumes or lets go of.

    Without ``trust_deaths`` a dead owner's shards are left alone.
    """
    mine = routes.of(me)
    members = routes.living | {me}
    wanted = assign(members, routes.owners, shards)
    kept = assign(members - (routes.young - set(routes.owners.values()) - {me}), routes.owners, shards)
    claim = {
        shard
        for shard in routes.unowned(shards)
        if wanted[shard] == me and (trust_deaths or shard not in routes.owners)
    }
    return Plan(
        claim=frozenset(claim - mine),
        let_go=frozenset(shard for shard in mine if kept[shard] != me),
        lost=frozenset(consumed) - mine,
    )
