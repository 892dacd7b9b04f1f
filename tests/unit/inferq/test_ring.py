"""Whose each shard is: bounded, the same for all, and nothing moves that need not."""

from collections import Counter
from collections.abc import Mapping
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferq.ring import MOST_OVER_MEAN, VIRTUAL_NODES, Ring, assign

SHARDS = 64
names = st.text("abcdefghij0123456789-.", min_size=1, max_size=12)
memberships = st.sets(names, min_size=1, max_size=12)


def loads(owners: Mapping[int, str], members: set[str]) -> list[int]:
    """How many shards each member has."""
    counts = Counter(owners.values())
    return [counts[member] for member in sorted(members)]


def moved(before: Mapping[int, str], after: Mapping[int, str]) -> set[int]:
    """The shards that changed hands."""
    return {shard for shard, owner in after.items() if before.get(shard) != owner}


@given(memberships, st.integers(1, 100))
def test_every_shard_has_one_owner_and_nobody_more_than_its_share(members: set[str], shards: int) -> None:
    """All shards are assigned, each member has the mean, rounded up or down."""
    owners = assign(members, {}, shards)
    assert sorted(owners) == list(range(shards))
    assert set(owners.values()) <= members
    mean = shards / len(members)
    assert max(loads(owners, members)) == ceil(mean)
    assert min(loads(owners, members)) == int(mean)


@given(st.sets(names, min_size=4, max_size=4))
def test_four_owners_of_64_shards_are_within_the_bound(members: set[str]) -> None:
    """Most over mean is at most 1.25."""
    assert max(loads(assign(members, {}, SHARDS), members)) / (SHARDS / 4) <= MOST_OVER_MEAN


@given(memberships, st.data())
def test_survivors_keep_all_their_shards(members: set[str], data: st.DataObject) -> None:
    """However many die, one after the other, each survivor keeps what it had, and the bound holds."""
    owners = assign(members, {}, SHARDS)
    for dead in data.draw(st.permutations(sorted(members)))[:-1]:
        members = members - {dead}
        after = assign(members, owners, SHARDS)
        assert moved(owners, after) == {shard for shard, owner in owners.items() if owner == dead}
        assert max(loads(after, members)) <= ceil(SHARDS / len(members))
        owners = after


@given(memberships, names)
def test_who_joins_gets_a_share_and_nothing_else_moves(members: set[str], newcomer: str) -> None:
    """Shards move to the newcomer alone, and no more than its share."""
    members -= {newcomer}
    before = assign(members, {}, SHARDS)
    after = assign(members | {newcomer}, before, SHARDS)
    gone = moved(before, after)
    assert {after[shard] for shard in gone} <= {newcomer}
    assert len(gone) in {SHARDS // (len(members) + 1), ceil(SHARDS / (len(members) + 1))}


@settings(max_examples=40)
@given(memberships, st.lists(st.tuples(st.booleans(), names), max_size=12))
def test_any_course_of_memberships_stays_even(members: set[str], course: list[tuple[bool, str]]) -> None:
    """Whoever comes and goes, no survivor loses anything to a death, and all stay within one of each other."""
    owners = assign(members, {}, SHARDS)
    for joins, name in course:
        present = members | {name} if joins else members - {name}
        if not present:
            continue
        after = assign(present, owners, SHARDS)
        if present < members:
            assert all(after[shard] == owner for shard, owner in owners.items() if owner in present)
        assert max(loads(after, present)) - min(loads(after, present)) <= 1
        members, owners = present, after


@given(memberships, st.dictionaries(st.integers(0, SHARDS - 1), names, max_size=SHARDS))
def test_from_anywhere_it_settles_at_once(members: set[str], owners: dict[int, str]) -> None:
    """Whatever the state is, the answer is even, and asked again from there it is the same."""
    settled = assign(members, owners, SHARDS)
    assert max(loads(settled, members)) - min(loads(settled, members)) <= 1
    assert assign(members, settled, SHARDS) == settled


@given(memberships, st.dictionaries(st.integers(0, SHARDS - 1), names, max_size=SHARDS))
def test_it_does_not_matter_in_which_order_one_hears_of_them(
    members: set[str], owners: dict[int, str]
) -> None:
    """Members are a set, and owners a mapping: each batcher comes to the same answer."""
    turned = dict(reversed(owners.items()))
    assert assign(sorted(members), owners, SHARDS) == assign(sorted(members, reverse=True), turned, SHARDS)


def test_without_members_nothing_is_assigned() -> None:
    """There is nobody to give a shard to."""
    assert assign([], {0: "gone"}, SHARDS) == {}


def test_the_order_of_a_shard_names_every_member_once() -> None:
    """It is the walk along the ring, and the same every time."""
    ring = Ring(["a", "b", "c"], 8)
    for shard in range(8):
        order = ring.order(shard)
        assert sorted(order) == ["a", "b", "c"]
        assert list(order.values()) == [0, 1, 2]
        assert list(order.items()) == list(Ring(["c", "b", "a", "a"], 8).order(shard).items())


def test_orders_survive_a_death() -> None:
    """Without one member the others come in the order that they had: that is what makes the hashing consistent."""
    whole, rest = Ring(["a", "b", "c", "d"], SHARDS), Ring(["a", "b", "d"], SHARDS)
    for shard in range(SHARDS):
        assert list(rest.order(shard)) == [member for member in whole.order(shard) if member != "c"]


@pytest.mark.parametrize("members", [2, 4, 8])
def test_virtual_nodes_give_each_member_about_its_part(members: int) -> None:
    """With 150 points each, no member is the first choice of more than one and a half times the mean of many shards."""
    assert VIRTUAL_NODES == 150
    ring = Ring([f"batcher-{number}" for number in range(members)], 4096)
    firsts = Counter(next(iter(ring.order(shard))) for shard in range(4096))
    assert max(firsts.values()) < 1.5 * 4096 / members
    assert min(firsts.values()) > 0.5 * 4096 / members


def test_the_points_are_the_same_in_every_process() -> None:
    """The hash is of the name alone: an answer that was right once stays right."""
    assert list(Ring(["a", "b", "c", "d"], 4).order(3)) == ["d", "b", "a", "c"]
    assert [assign("abcd", {}, 8)[shard] for shard in range(8)] == list("babdccda")
