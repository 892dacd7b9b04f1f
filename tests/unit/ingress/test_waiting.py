"""How many jobs of each model wait, as the statistics show it."""

from inferq.names import Names
from ingress.statistics import waiting


def test_a_models_queues_are_summed() -> None:
    """Of both priorities and of all shards; another model's count for nothing."""
    for names in (Names(), Names(shards=3)):
        mine, others = names.queues("builtin"), names.queues("other")
        counted = {queue: number for number, queue in enumerate((*mine, *others), 1)}
        assert waiting(counted, names, ["builtin", "other"]) == {
            "builtin": sum(range(1, len(mine) + 1)),
            "other": sum(range(len(mine) + 1, len(counted) + 1)),
        }


def test_what_was_not_counted_queue_by_queue_is_not_known() -> None:
    """Neither before the first count nor where queues are counted as one."""
    names = Names(shards=3)
    assert waiting({}, names, ["builtin"]) == {"builtin": None}
    assert waiting(dict.fromkeys(names.shard_bases("builtin"), 7), names, ["builtin"]) == {"builtin": None}
    some = dict.fromkeys(names.queues("builtin")[:-1], 1)
    assert waiting(some, names, ["builtin"]) == {"builtin": None}
