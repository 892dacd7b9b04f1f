"""The leases on shards: claimed when they are free, ended with their holder, given up by their holder alone."""

import pytest

from inferq import shards
from inferq.shards import ShardLeases
from tests.deployment import Deployment
from tests.support import eventually


def leases(streams: Deployment) -> ShardLeases:
    """The leases of the test's model."""
    return ShardLeases(streams.redis, streams.names, "builtin")


async def test_a_shard_has_one_owner(streams: Deployment) -> None:
    """Whoever claims first has it; another's claim changes nothing, nor does giving up what is another's."""
    it = leases(streams)
    first = await it.tend("a", claim={0, 1})
    assert first.living == {"a"}
    assert first.of("a") == {0, 1}
    second = await it.tend("b", claim={1, 2}, give_up={0})
    assert second.living == {"a", "b"}
    assert [second.of("a"), second.of("b")] == [{0, 1}, {2}]
    assert second.unowned(4) == [3]
    then = await it.tend("a", give_up={0, 2})
    assert [then.of("a"), then.of("b")] == [{1}, {2}]
    looked = await it.look()
    assert (looked.living, looked.owners) == (then.living, then.owners)


async def test_what_the_dead_had_is_free(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its lease has ended, and not before; whoever renews keeps what it has."""
    monkeypatch.setattr(shards, "LEASE_MS", 300)
    it = leases(streams)
    await it.tend("dead", claim={0, 1})

    async def alone() -> bool:
        found = await it.tend("b", claim={0, 1})
        assert found.of("b") in (set(), {0, 1})
        return found.of("b") == {0, 1}

    assert (await it.tend("b", claim={0})).of("dead") == {0, 1}
    await eventually(alone, what="the end of a lease")
    looked = await it.look()
    assert looked.living == {"b"}
    assert (await it.tend("dead", claim={0})).of("dead") == set()


async def test_who_leaves_has_nothing_at_once(streams: Deployment) -> None:
    """And others have what they had."""
    it = leases(streams)
    await it.tend("a", claim={0, 1})
    await it.tend("b", claim={2})
    await it.leave("a")
    found = await it.look()
    assert found.living == {"b"}
    assert found.owners == {2: "b"}


async def test_newcomers_are_known_for_a_while(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as one that died before them would not be late yet; while somebody is late, until its lease ends."""
    monkeypatch.setattr(shards, "LATE_MS", 200)
    monkeypatch.setattr(shards, "LEASE_MS", 1_000)
    it = leases(streams)
    assert (await it.tend("a")).young == {"a"}

    async def grown() -> bool:
        return not (await it.tend("a")).young

    await eventually(grown, what="a member that is new no more")
    assert (await it.tend("b")).young == {"b"}
    seen = []

    async def gone() -> bool:
        # The first one renews no more: it is late, and then it is dead.
        found = await it.tend("b")
        seen.append(found)
        return found.living == {"b"} and not found.young

    await eventually(gone, what="the end of the first one's lease")
    assert all("b" in found.young for found in seen if "a" in found.living)


async def test_each_model_has_its_own(streams: Deployment) -> None:
    """Batchers of one model know nothing of another's."""
    await ShardLeases(streams.redis, streams.names, "other").tend("a", claim={0})
    assert (await leases(streams).look()).living == set()
