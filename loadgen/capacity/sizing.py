"""From what a job costs to what a load needs: cores, deployments, memory, network. Pure.

Everything is linear in the load: a component that uses ``us`` of CPU for a job carries ``1e6 / us`` jobs a second on a
core that does nothing else. No core is planned fuller than `USED_SHARE`, since queues grow without bound near 1. What a
busy process saves by doing more at a time (one flush, one write, one script call for many jobs) is not counted on: the
costs were read at a moderate rate, so these figures are too high rather than too low.

Three things do not grow inside one deployment, and the first of them that is full bounds it:

- Redis: one process, whose commands run on one core. Record, index, events and, without RabbitMQ, the queue are there.
- RabbitMQ: a queue is one Raft group, and what its leader does is one process of the node's, so at most one core. The
  node's whole CPU is laid on it here, which is more than it has to bear.
- Notifiers: each hears of every job on the channels that it needs, and with thousands of watched jobs these are all.
  More notifiers share the pushing, and each still hears everything. No more than half of one is to go into hearing.

A load beyond one deployment's needs several, each with a Redis, a queue and a namespace of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.capacity.costs import BATCHER, INGRESS, NOTIFIER, RABBITMQ, VALKEY, EngineCosts, JobCosts

USED_SHARE: Final = 0.6
HEARING_SHARE: Final = 0.5
HOST_CORES: Final = 32
# What a notifier takes before it refuses.
SOCKETS_A_NOTIFIER: Final = 10_000
GIB: Final = float(1 << 30)


@dataclass(frozen=True, kw_only=True)
class Need:
    """A component under a load: CPU for a job (us), jobs a second that a core carries, and cores, whole ones."""

    name: str
    us: float
    per_core: float
    cores: int

    @property
    def hosts(self) -> int:
        """Return hosts of `HOST_CORES`."""
        return math.ceil(self.cores / HOST_CORES)


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A load on one broker: deployments, what each component needs in all of them, and what crosses and stays.

    ``redis_gib`` is in all, ``instance_gib`` in each Redis.
    """

    jobs_per_s: float
    deployments: int
    needs: list[Need]
    engines: list[Need]
    redis_gib: float
    instance_gib: float
    network_gbit_s: float
    written_mb_s: float


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What one deployment carries at most for one reason, in jobs a second."""

    name: str
    per_s: float


def per_core(us: float) -> float:
    """Return the jobs a second that a core carries at `USED_SHARE`; without end for what costs nothing."""
    return USED_SHARE * 1e6 / us if us > 0 else math.inf


def pushing_us(costs: JobCosts) -> float:
    """Return what the notifier does for the jobs that it pushes itself, beyond hearing of them."""
    return max(0.0, costs.of(NOTIFIER) - costs.cpu_us.get(NOTIFIER, 0.0))


def bounds(costs: JobCosts) -> list[Bound]:
    """Return what bounds one deployment, the lowest first."""
    found = [Bound(name=VALKEY, per_s=per_core(costs.of(VALKEY)))]
    if costs.of(RABBITMQ):
        found.append(Bound(name=RABBITMQ, per_s=per_core(costs.of(RABBITMQ))))
    hearing = per_core(costs.cpu_us.get(NOTIFIER, 0.0)) * HEARING_SHARE
    found.append(Bound(name=NOTIFIER, per_s=hearing))
    return sorted(found, key=lambda one: one.per_s)


def sized(
    costs: JobCosts, engines: Sequence[EngineCosts], *, jobs_per_s: float, result_ttl_s: float
) -> Sized:
    """Return what a load needs, every job followed by one client; raises `ValueError` for no load."""
    if not jobs_per_s > 0:
        raise ValueError(f"jobs a second must be above 0, and not {jobs_per_s:g}")
    deployments = math.ceil(jobs_per_s / bounds(costs)[0].per_s)
    each = jobs_per_s / deployments
    needs = [_each(INGRESS, costs.of(INGRESS), each, deployments)]
    needs.append(_each(VALKEY, costs.of(VALKEY), each, deployments))
    if costs.of(RABBITMQ):
        needs.append(_each(RABBITMQ, costs.of(RABBITMQ), each, deployments))
    needs += [
        _each(BATCHER, costs.of(BATCHER), each, deployments),
        _notifiers(costs, each, deployments),
    ]
    redis_bytes = jobs_per_s * result_ttl_s * max(0.0, costs.record_bytes)
    return Sized(
        jobs_per_s=jobs_per_s,
        deployments=deployments,
        needs=needs,
        engines=[_each(one.model, one.cpu_us, each, deployments) for one in engines],
        redis_gib=redis_bytes / GIB,
        instance_gib=redis_bytes / GIB / deployments,
        network_gbit_s=jobs_per_s * (costs.network_bytes + costs.pushed_bytes) * 8 / 1e9,
        written_mb_s=jobs_per_s * costs.written_bytes / 1e6,
    )


def sockets_gib(socket_kib: float, sockets: int) -> tuple[int, float]:
    """Return the notifiers that so many open sockets need at least, and their memory for them in GiB."""
    return math.ceil(sockets / SOCKETS_A_NOTIFIER), sockets * socket_kib * 1024 / GIB


def _each(name: str, us: float, each: float, deployments: int) -> Need:
    return Need(name=name, us=us, per_core=per_core(us), cores=math.ceil(each / per_core(us)) * deployments)


def _notifiers(costs: JobCosts, each: float, deployments: int) -> Need:
    """Notifiers of one deployment share the pushing of ``each`` jobs a second, and all hear of all of them."""
    hearing = each * costs.cpu_us.get(NOTIFIER, 0.0) / 1e6
    share = each * pushing_us(costs) / 1e6 / (USED_SHARE - hearing)
    cores = max(1, math.ceil(share)) * deployments
    total = costs.of(NOTIFIER)
    return Need(name=NOTIFIER, us=total, per_core=per_core(total), cores=cores)
