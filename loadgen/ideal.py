"""What a server without overhead gives for the same arrivals, and how far a measurement is from it. Pure.

The ideal is the batcher's own planner and policy on a virtual clock, with the cost that the batcher fitted at its
warm-up: nothing but the engine takes time. What ingress, broker, store, network and the batcher's loop add is in the
ratio, and so is what they take from the engine's cores. It is an ideal of this policy, not of all policies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from batcher.traffic import Arrival
from inferq.settings import Settings
from loadgen.fitted import Fitted, simulated


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a run went: latency (ms) and jobs done a second, from the first arrival to the last end; nan for nothing."""

    mean_ms: float
    p50_ms: float
    p99_ms: float
    throughput: float


@dataclass(frozen=True, kw_only=True)
class Over:
    """A measurement over its ideal, as ratios: latency is at least about 1, throughput at most."""

    mean: float
    p50: float
    p99: float
    throughput: float


def ideal(fitted: Fitted, settings: Settings, arrivals: Sequence[Arrival]) -> Course:
    """Return what the arrivals come to with the settings' policy; jobs that are refused or expire do not count."""
    result = simulated(fitted, settings, arrivals)
    done = result.done
    return Course(
        mean_ms=sum(one.latency_ms for one in done) / len(done) if done else float("nan"),
        p50_ms=result.latency_ms(0.5),
        p99_ms=result.latency_ms(0.99),
        throughput=result.throughput if done else float("nan"),
    )


def over(measured: Course, best: Course) -> Over:
    """Return the measured over the ideal; both of the same arrivals."""
    return Over(
        mean=measured.mean_ms / best.mean_ms,
        p50=measured.p50_ms / best.p50_ms,
        p99=measured.p99_ms / best.p99_ms,
        throughput=measured.throughput / best.throughput,
    )
