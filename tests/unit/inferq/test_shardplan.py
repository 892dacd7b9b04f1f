"""What a batcher claims, lets go of and has lost."""

import random

import pytest

from inferq.ring import assign
from inferq.shardplan import Plan, Routes, plan

SHARDS = 16


def nothing() -> Plan:
    """Nothing to do."""
    return Plan(claim=frozenset(), let_go=frozenset(), lost=frozenset())


def routes(living: str, owners: dict[int, str] | None = None) -> Routes:
    """One letter a member."""
    return Routes(living=frozenset(living), owners=owners or {})


def test_the_only_one_claims_everything() -> None:
    """Of an empty deployment, at once; known to Redis or not yet."""
    for living in ("a", ""):
        found = plan(routes(living), "a", consumed=(), shards=SHARDS)
        assert found == Plan(claim=frozenset(range(SHARDS)), let_go=frozenset(), lost=frozenset())


def test_two_claim_what_is_theirs_and_nothing_twice() -> None:
    """From the same facts they come to halves that do not meet."""
    first, second = (plan(routes("ab"), me, consumed=(), shards=SHARDS).claim for me in "ab")
    assert first | second == frozenset(range(SHARDS))
    assert not first & second
    assert len(first) == len(second)


def test_settled_there_is_nothing_to_do() -> None:
    """Neither for whoever owns, nor for the others."""
    owners = assign("abc", {}, SHARDS)
    for me in "abc":
        mine = routes("abc", owners).of(me)
        assert plan(routes("abc", owners), me, consumed=mine, shards=SHARDS) == nothing()


def test_a_dead_owners_shards_are_claimed() -> None:
    """By the survivors, all of them, and nothing else moves."""
    owners = assign("abc", {}, SHARDS)
    now = routes("ab", owners)
    plans = {me: plan(now, me, consumed=now.of(me), shards=SHARDS) for me in "ab"}
    claimed = plans["a"].claim | plans["b"].claim
    assert claimed == {shard for shard, owner in owners.items() if owner == "c"}
    assert not any(one.let_go or one.lost for one in plans.values())
    assert now.unowned(SHARDS) == sorted(claimed)


def test_deaths_say_nothing_after_an_outage() -> None:
    """While nobody's lease can be trusted a dead owner's shards stay, and what nobody owned is claimed all the same."""
    owners = assign("ab", {}, SHARDS)
    free = owners.copy()
    del free[3]
    for me in "ab":
        found = plan(
            routes(me, free), me, consumed=routes(me, free).of(me), shards=SHARDS, trust_deaths=False
        )
        assert found.claim <= {3}
    both = [plan(routes("ab", free), me, consumed=(), shards=SHARDS, trust_deaths=False).claim for me in "ab"]
    assert both[0] | both[1] == {3}


def test_a_newcomer_waits_for_what_is_a_living_ones() -> None:
    """The owner lets go of the newcomer's share; only what has been let go of is claimed."""
    owners = dict.fromkeys(range(SHARDS), "a")
    now = routes("ab", owners)
    assert plan(now, "b", consumed=(), shards=SHARDS) == nothing()
    given = plan(now, "a", consumed=range(SHARDS), shards=SHARDS)
    assert (len(given.let_go), given.claim, given.lost) == (SHARDS // 2, frozenset(), frozenset())
    for shard in sorted(given.let_go)[:3]:
        del owners[shard]
    then = routes("ab", owners)
    assert plan(then, "b", consumed=(), shards=SHARDS).claim == set(sorted(given.let_go)[:3])
    # Asked again in between, the owner says the same of what is left.
    assert plan(then, "a", consumed=range(SHARDS), shards=SHARDS).let_go == given.let_go - then_free(then)


def then_free(now: Routes) -> set[int]:
    """What nobody owns."""
    return set(now.unowned(SHARDS))


def test_who_comes_just_after_a_death_takes_the_place_of_the_dead() -> None:
    """Those who were there before give it nothing while it is new; of what the dead one had it gets all."""
    owners = assign("abc", {}, SHARDS)
    # The dead one's leases have not ended yet.
    before = Routes(living=frozenset("abcd"), owners=owners, young=frozenset("d"))
    for me in "abd":
        assert plan(before, me, consumed=before.of(me), shards=SHARDS) == nothing()
    after = Routes(living=frozenset("abd"), owners=owners, young=frozenset("d"))
    claimed = {me: plan(after, me, consumed=after.of(me), shards=SHARDS) for me in "abd"}
    assert claimed["d"].claim == after.of("c")
    assert claimed["a"] == claimed["b"] == nothing()


def test_who_comes_to_a_full_house_is_given_its_share_when_it_is_not_new_any_more() -> None:
    """Then as any other; who has shards already is not kept waiting by its newness."""
    owners = assign("ab", {}, SHARDS)
    for young, given in (("c", 0), ("abc", 0), ("ab", SHARDS // 3), ("", SHARDS // 3)):
        now = Routes(living=frozenset("abc"), owners=owners, young=frozenset(young))
        plans = [plan(now, me, consumed=now.of(me), shards=SHARDS) for me in "ab"]
        assert sum(len(one.let_go) for one in plans) == given


def test_who_wakes_has_lost_what_others_took() -> None:
    """What is another's is stopped, be the sleeper known as living again or not."""
    owners = dict.fromkeys(range(SHARDS), "b")
    owners[5] = "a"
    for living in ("ab", "b"):
        found = plan(routes(living, owners), "a", consumed={4, 5, 6}, shards=SHARDS)
        assert found.lost == {4, 6}


@pytest.mark.parametrize("seed", range(20))
def test_any_course_ends_with_each_shard_at_one_owner(seed: int) -> None:
    """Members come, die and act in any order on what they see; once all have acted, each shard has one living owner,
    and on the way nobody ever claims what is a living one's."""
    chance = random.Random(seed)
    living: set[str] = {"a"}
    owners: dict[int, str] = {}

    def act(me: str) -> bool:
        now = Routes(living=frozenset(living), owners=dict(owners))
        found = plan(now, me, consumed=now.of(me), shards=SHARDS)
        for shard in found.claim:
            assert owners.get(shard) not in living
            owners[shard] = me
        for shard in found.let_go:
            del owners[shard]
        return bool(found.claim or found.let_go)

    for _ in range(60):
        if chance.random() < 0.15:
            living.add(chance.choice("abcdefg"))
        if chance.random() < 0.1 and len(living) > 1:
            living.remove(chance.choice(sorted(living)))
        act(chance.choice(sorted(living)))
    for _ in range(4):
        for me in chance.sample(sorted(living), len(living)):
            act(me)
    assert not any(map(act, sorted(living)))
    assert set(owners.values()) <= living
    assert sorted(owners) == list(range(SHARDS))
