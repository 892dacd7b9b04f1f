"""What a server without overhead gives for a plan, counted as the plan is counted. Pure."""

import math
from collections.abc import Sequence

from batcher.traffic import Arrival
from inferq.settings import Settings
from loadgen.figures import percentile
from loadgen.fitted import Fitted, simulated
from loadgen.reports.measured import Best


def best(
    fitted: Fitted, settings: Settings, due_s: Sequence[float], lengths: Sequence[int], *, warm_s: float
) -> Best:
    """Return the ideal for jobs that come when they are due, with so many tokens; those of the warm-up do not count."""
    arrivals = [Arrival(at_s=at_s, length=length) for at_s, length in zip(due_s, lengths, strict=True)]
    result = simulated(fitted, settings, arrivals)
    counted = [one for one in result.done if one.arrival.at_s >= warm_s]
    took_ms = sorted(one.latency_ms for one in counted)
    closes_s = max(due_s, default=warm_s)
    ended = sum(warm_s <= one.finished_s <= closes_s for one in result.done)
    return Best(
        p50_ms=percentile(took_ms, 0.5),
        p99_ms=percentile(took_ms, 0.99),
        throughput=ended / (closes_s - warm_s) if closes_s > warm_s else math.nan,
    )
