"""Room on RabbitMQ, of each model by itself."""

import pytest

from inferq.broker.rooms import EACH_S, Rooms
from inferq.names import Names

PLAIN, SHARDED = Names(), Names(shards=3)


def rooms(names: Names) -> Rooms:
    """Room for ten jobs of each of two models."""
    return Rooms(names, names.queues("builtin", "other"), limit_jobs=10)


@pytest.mark.parametrize("names", [PLAIN, SHARDED])
def test_no_model_takes_anothers_room(names: Names) -> None:
    """All queues of one model share its room; the other's is whole."""
    it = rooms(names)
    mine, others = names.queues("builtin"), names.queues("other")
    assert {it.of(queue) for queue in mine}.isdisjoint({it.of(queue) for queue in others})
    assert it.of(mine[0]).grant(6) == 6
    assert it.of(mine[-1]).grant(6) == 4
    assert it.of(others[0]).grant(20) == 10


def test_jobs_are_those_of_all_queues() -> None:
    """As counted, and as accepted since."""
    it = rooms(PLAIN)
    assert it.at_s == float("-inf")
    counts = dict.fromkeys(PLAIN.queues("builtin", "other"), 0) | {PLAIN.queue("other"): 9}
    it.count_begins()
    it.counted(counts, 5.0)
    assert it.of(PLAIN.queue("builtin")).grant(1) == 1
    it.of(PLAIN.queue("builtin")).accepted(PLAIN.queue("builtin"))
    assert it.jobs == counts | {PLAIN.queue("builtin"): 1}
    assert it.at_s == 5.0
    assert it.of(PLAIN.queue("other")).grant(5) == 1


def test_with_shards_a_model_is_counted_as_one() -> None:
    """By what its queues begin with."""
    it = rooms(SHARDED)
    base, other = SHARDED.shard_bases("builtin")[0], SHARDED.shard_bases("other")[0]
    assert it.groups == {base: list(SHARDED.queues("builtin")), other: list(SHARDED.queues("other"))}
    it.count_begins()
    it.counted({base: 4, other: 10}, 1.0)
    queue = SHARDED.queue("builtin", shard=2)
    assert it.of(queue).grant(20) == 6
    it.of(queue).accepted(queue)
    assert it.jobs == {base: 5, other: 10}
    assert it.of(SHARDED.queue("other")).grant(1) == 0


def test_what_all_have_together_will_do_for_each_while_it_is_little() -> None:
    """Up to four fifths of the limit: beyond, each model's queues have to be counted, if there are several."""
    it = rooms(SHARDED)
    assert it.told_together(8) == dict.fromkeys(it.groups, 8)
    assert it.told_together(9) == {}
    alone = Rooms(SHARDED, SHARDED.queues(), limit_jobs=10)
    assert alone.told_together(99) == {SHARDED.shard_bases("builtin")[0]: 99}


def test_queues_are_counted_one_by_one_now_and_then() -> None:
    """At once the first time, and not again for a while."""
    it = rooms(SHARDED)
    assert [it.each_due(at_s) for at_s in (100.0, 100.1, 100.0 + EACH_S, 100.1 + EACH_S)] == [
        True, False, True, False,
    ]  # fmt: skip  # as the times stand
