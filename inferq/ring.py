"""Which batcher each shard belongs to: a consistent-hash ring with bounded loads that leaves alone what lives. Pure.

Every batcher works this out for itself, from the same few facts, and all come to the same answer: who lives, and whose
each shard is now.

Rules:

1. Members and shards are points on a ring, `VIRTUAL_NODES` a member, so that each member's part is near its share.
   From its point a shard walks on; the order in which it meets the members is its order of preference.
2. Nobody has more shards than the mean, rounded up, and nobody fewer than the mean, rounded down. That is within
   `MOST_OVER_MEAN` as soon as there are four shards a member; a ring alone gives some members twice what others have.
3. A shard whose owner lives stays where it is, unless its owner has more than its share and another has less. So when a
   member dies its shards alone move, and a member that joins is given its share and nothing else moves.
4. Where there is a choice, the ring decides it: a shard without an owner goes to the first member of its order that has
   room; and of what an owner has to give up, that goes which prefers the taker most.

The points come from SHA-256 of names, so they are the same in every process and version.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

VIRTUAL_NODES: Final = 150
MOST_OVER_MEAN: Final = 1.25


class Ring:
    """The order in which each of ``shards`` prefers ``members``."""

    def __init__(self, members: Collection[str], shards: int) -> None:
        points = sorted(
            (_point(f"{member}#{node}"), member) for member in set(members) for node in range(VIRTUAL_NODES)
        )
        hashes = [point for point, _ in points]
        self._orders: list[Mapping[str, int]] = []
        for shard in range(shards):
            first = bisect_right(hashes, _point(f"shard {shard}"))
            met = dict.fromkeys(member for _, member in (*points[first:], *points[:first]))
            self._orders.append({member: rank for rank, member in enumerate(met)})

    def order(self, shard: int) -> Mapping[str, int]:
        """Return the rank of each member, 0 the most preferred; in that order."""
        return self._orders[shard]


def assign(members: Collection[str], owners: Mapping[int, str], shards: int) -> dict[int, str]:
    """Return whose each shard is to be; ``owners`` says whose they are, dead owners and missing ones alike are none.

    Empty without members.
    """
    living = sorted(set(members))
    if not living:
        return {}
    ring = _ring(tuple(living), shards)
    low, more = divmod(shards, len(living))
    held: dict[str, set[int]] = {member: set() for member in living}
    homeless = []
    for shard in range(shards):
        owner = owners.get(shard)
        if owner in held:
            held[owner].add(shard)
        else:
            homeless.append(shard)
    shares = _shares(held, low=low, more=more)
    for shard in homeless:
        held[_first_with_room(ring, shard, held, shares)].add(shard)
    _even_out(ring, held, shares)
    return {shard: member for member, mine in held.items() for shard in mine}


def _shares(held: Mapping[str, Collection[int]], *, low: int, more: int) -> dict[str, int]:
    """Return how many shards each member is to have: ``more`` of them one above ``low``, those that have most now."""
    by_load = sorted(held, key=lambda member: (-len(held[member]), member))
    return {member: low + (place < more) for place, member in enumerate(by_load)}


def _first_with_room(
    ring: Ring, shard: int, held: Mapping[str, Collection[int]], shares: Mapping[str, int]
) -> str:
    # All shares together are all shards, so somebody has room while one has no owner.
    return next(member for member in ring.order(shard) if len(held[member]) < shares[member])


def _even_out(ring: Ring, held: Mapping[str, set[int]], shares: Mapping[str, int]) -> None:
    """Let those above their share give to those below."""
    for taker in sorted(held, key=lambda member: (len(held[member]), member)):
        for _ in range(shares[taker] - len(held[taker])):
            giver = max(held, key=lambda member: (len(held[member]) - shares[member], member))
            shard = min(held[giver], key=lambda one: (ring.order(one)[taker], one))
            held[giver].remove(shard)
            held[taker].add(shard)


# A few memberships are asked for again and again, once a second by each batcher.
@lru_cache(maxsize=16)
def _ring(members: tuple[str, ...], shards: int) -> Ring:
    return Ring(members, shards)


def _point(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
