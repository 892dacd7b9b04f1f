"""What a job costs, as it was measured in one run, and how that is kept as JSON. Pure.

CPU is in microseconds, the kernel's count for each process with all its threads; sizes are in bytes. The engine is
apart: what it costs is the model's, and everything else is the same whatever the model.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from inferq.errors import OperatorError

INGRESS: Final = "ingress"
VALKEY: Final = "valkey"
RABBITMQ: Final = "rabbitmq"
BATCHER: Final = "batcher"
NOTIFIER: Final = "notifier"


class JobCosts(msgspec.Struct, frozen=True, kw_only=True):
    """A job on one broker, from its submit to its stored result, ``rate`` a second.

    ``cpu_us`` is by process, for a job that nobody follows, and that the notifier hears of because it watches others.
    ``watched_us`` is what a job costs each of them when one client follows it by push, ``webhook_us`` with a webhook.
    ``record_bytes`` is what a job that has ended keeps in Redis, ``waiting_bytes`` what one that waits does,
    ``written_bytes`` what of it goes to the append-only file. ``network_bytes`` is everything that crossed the network
    between all processes, clients included, ``pushed_bytes`` what a follower adds.
    """

    broker: str
    rate: float
    jobs: int
    mean_batch: float
    cpu_us: dict[str, float]
    watched_us: dict[str, float]
    webhook_us: dict[str, float]
    redis_commands: float
    record_bytes: float
    waiting_bytes: float
    written_bytes: float
    network_bytes: float
    pushed_bytes: float

    def of(self, name: str) -> float:
        """CPU of a process for a job that one client follows; 0 for one that is not there."""
        return self.watched_us.get(name, 0.0)


class EngineCosts(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the engine's process while jobs wait for it: microseconds of CPU, and jobs a batch."""

    model: str
    cpu_us: float
    mean_batch: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """One run: when and on what, and what was measured.

    ``socket_kib`` is the notifier's memory for an open socket that waits for nothing, ``text_bytes`` the mean length of
    the texts that were sent.
    """

    at: str
    machine: str
    programs: str
    text_bytes: float
    socket_kib: float
    jobs: list[JobCosts]
    engines: list[EngineCosts]


def cpu_us(used_s: Mapping[str, float], jobs: int) -> dict[str, float]:
    """Return CPU in microseconds a job, from seconds for so many."""
    return {name: seconds / jobs * 1e6 for name, seconds in used_s.items()}


def medians(found: Sequence[JobCosts]) -> JobCosts:
    """Return the run whose CPU for a followed job is the median of all: figures of one run belong together."""
    return sorted(found, key=lambda one: sum(one.watched_us.values()))[len(found) // 2]


def encode(costs: Costs) -> bytes:
    """Return them as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(costs), indent=2) + b"\n"


def decode(data: bytes) -> Costs:
    """Return them from JSON; raises `OperatorError` when it is none of ours."""
    try:
        return msgspec.json.decode(data, type=Costs)
    except msgspec.DecodeError as error:
        raise OperatorError(f"these are no costs as `--part costs --out` writes them: {error}") from error
