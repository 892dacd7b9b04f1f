"""The queues of jobs, judged by who consumes them, and summed up. Pure.

With hash routing each model has a queue for each shard and priority. Nobody reads so many lines: what the shards of one
have in common is said once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.cli.examining.finding import Finding, wrong
from inferq.plurals import counted

SHOWN: Final = 3
_CURE: Final = "start a batcher of that model: `inferq up`, or `python -m batcher` with its INFERQ_SERVES"


@dataclass(frozen=True, kw_only=True)
class QueueCount:
    """A queue: messages that are ready, those that are unacknowledged (None where that is not told), and consumers."""

    name: str
    ready: int
    consumers: int
    held: int | None = None


def unconsumed(queues: Sequence[QueueCount], *, shards: int) -> list[Finding]:
    """Return what is to be said of queues that nobody consumes; ``shards`` is how many each name stands for."""
    found = []
    for name, family in _families(queues, shards).items():
        alone = {shard: queue for shard, queue in family.items() if not queue.consumers}
        if alone:
            waiting = counted(sum(queue.ready for queue in alone.values()), "job waits", "jobs wait")
            found.append(
                wrong("queues", f"nobody consumes {_named(name, alone, shards)}, and {waiting} there", _CURE)
            )
    return found


def told(queues: Sequence[QueueCount], *, shards: int) -> str:
    """Say of each queue, or of all its shards together, what waits there, what is in hand, and who consumes.

    Of several models most queues are alike, and empty: many of the same are told of once.
    """
    alike: dict[str, list[str]] = {}
    for name, family in _families(queues, shards).items():
        alike.setdefault(_told(family, shards), []).append(name)
    return "; ".join(part for told, names in alike.items() for part in _together(names, told))


def _together(names: Sequence[str], told: str) -> list[str]:
    if len(names) <= SHOWN:
        return [f"{name}: {told}" for name in names]
    return [f"{len(names)} queues ({', '.join(names[:SHOWN])}, …): each {told}"]


def _told(family: Mapping[str, QueueCount], shards: int) -> str:
    queues = family.values()
    helds = [queue.held for queue in queues if queue.held is not None]
    held = f", {sum(helds)} unacknowledged" if helds else ""
    text = f"{sum(queue.ready for queue in queues)} ready{held}, "
    if shards > 1:
        return f"{text}{counted(len(family), 'shard')}, each with a consumer"
    return text + counted(sum(queue.consumers for queue in queues), "consumer")


def _families(queues: Sequence[QueueCount], shards: int) -> dict[str, dict[str, QueueCount]]:
    """Return the queues by the name that shards have in common, and by shard."""
    found: dict[str, dict[str, QueueCount]] = {}
    for queue in queues:
        name, shard = queue.name, ""
        if shards > 1:
            name, _, shard = queue.name.rpartition(".")
        found.setdefault(name, {})[shard] = queue
    return found


def _named(name: str, alone: Mapping[str, QueueCount], shards: int) -> str:
    if shards == 1:
        return name
    if len(alone) == shards:
        return f"any shard of {name}"
    some = ", ".join(list(alone)[:SHOWN]) + (", …" if len(alone) > SHOWN else "")
    return f"{counted(len(alone), 'shard')} of {name} ({some})"
