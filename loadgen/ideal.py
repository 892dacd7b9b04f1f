"""What a server without overhead gives for the same arrivals, and how far a measurement is from it. Pure.

The ideal is the batcher's own planner and policy on a virtual clock, with the cost that the batcher fitted at its
warm-up: nothing but the engine takes time. What ingress, broker, store, network and the batcher's loop add is in the
ratio, and so is what they take from the engine's cores. It is an ideal of this policy, not of all policies.

A run that is measured has a warm-up, and jobs under way when its count opens and closes. Its ideal is counted alike:
the whole plan is simulated, latency is of the jobs due past the warm-up, throughput of the ends within the count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from batcher.outcomes import Outcome
from batcher.traffic import Arrival
from inferq.settings import Settings
from loadgen.figures import percentile
from loadgen.fitted import Fitted, simulated
from loadgen.generator.plan import Plan, due_s
from loadgen.generator.report import Report


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a run went: latency (ms), and jobs done a second over the time that was counted; nan for nothing."""

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


def counted(
    fitted: Fitted, settings: Settings, arrivals: Sequence[Arrival], *, opens_s: float, closes_s: float
) -> Course:
    """Return what the arrivals come to with the settings' policy, counted between two times (s) as a generator does.

    Latency is of the jobs that arrive in between, throughput of the ends that fall there. Jobs that are refused or
    expire do not count.
    """
    done = simulated(fitted, settings, arrivals).done
    ended = sum(opens_s <= one.finished_s < closes_s for one in done)
    within = [one for one in done if opens_s <= one.arrival.at_s < closes_s]
    return _course(within, ended / (closes_s - opens_s) if within else float("nan"))


def arrivals(plan: Plan, lengths: Sequence[int]) -> list[Arrival]:
    """Return a plan's requests as the batcher sees them, warm-up included; ``lengths`` are their texts' tokens.

    Raises:
        ValueError: there is not one length for each request.
        OperatorError: the plan is out of bounds.
    """
    due = due_s(plan.schedule, plan.seed)
    return [
        Arrival(at_s=at_s, length=length, deadline_ms=plan.deadline_ms)
        for at_s, length in zip(due, lengths, strict=True)
    ]


def course(report: Report) -> Course:
    """Return how a run went that was measured: from acceptance to the stored result."""
    stored = report.stored
    return Course(
        mean_ms=_number(stored.mean_ms),
        p50_ms=_number(stored.p50_ms),
        p99_ms=_number(stored.p99_ms),
        throughput=throughput(report),
    )


def throughput(report: Report) -> float:
    """Return the jobs done a second within the count: what was accepted in it, and what was under way at its ends.

    Without the jobs under way an overloaded server would be said to do all that it ever did, in a time that ended
    before. Of what ended so much was done as of all that ever ended. nan when nothing was accepted.
    """
    if not report.accepted:
        return float("nan")
    accepted = sum(one.accepted for one in report.timeline if one.at_s < report.seconds)
    ended = accepted + report.at_open - report.at_close
    return ended * report.done / max(1, sum(report.statuses.values())) / report.seconds


def over(measured: Course, best: Course) -> Over:
    """Return the measured over the ideal, both of the same arrivals; nan over an ideal that takes no time."""
    return Over(
        mean=_ratio(measured.mean_ms, best.mean_ms),
        p50=_ratio(measured.p50_ms, best.p50_ms),
        p99=_ratio(measured.p99_ms, best.p99_ms),
        throughput=_ratio(measured.throughput, best.throughput),
    )


def _course(done: Sequence[Outcome], rate: float) -> Course:
    times = sorted(one.latency_ms for one in done)
    return Course(
        mean_ms=sum(times) / len(times) if times else float("nan"),
        p50_ms=percentile(times, 0.5),
        p99_ms=percentile(times, 0.99),
        throughput=rate,
    )


def _ratio(measured: float, best: float) -> float:
    return measured / best if best else float("nan")


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
