"""Where the closed form of a batch server speaks of ours, and what it says. Pure.

`loadgen.batchqueue` lists what it needs. Of a level that is Poisson arrivals, which a sweep's are; a policy that never
holds a batch back; one lane and no wide session; batches whose time is linear in their jobs, whatever these are; a
largest batch that is hardly reached; and a load below 1.
"""

from collections.abc import Sequence
from typing import Final

from inferq.settings import Settings
from loadgen.batchqueue import Bounds, mean_latency
from loadgen.fitted import Fitted

# By so much may a row's cost differ between the shortest and the longest text.
ALIKE: Final = 1.05
# The share of batches that may be full.
HARDLY: Final = 0.01


def applies(fitted: Fitted, settings: Settings, lengths: Sequence[int]) -> str:
    """Return why the closed form does not speak of this server; empty where it does."""
    held_back = settings.batch_policy == "fixed" and settings.max_wait_ms > 0
    if held_back or settings.batch_policy == "slo":
        return "the policy holds batches back"
    if settings.max_batch_size == 1:
        return "there are no batches"
    if fitted.lanes > 1 or fitted.wide is not None:
        return "more than one batch may run at a time"
    if not lengths:
        return "nothing was sent"
    cost = fitted.lane
    if cost.row_cost_ms(max(lengths)) > ALIKE * cost.row_cost_ms(min(lengths)):
        return "a batch's time depends on the lengths of its texts"
    return ""


def bounds(fitted: Fitted, rate: float, lengths: Sequence[int], *, full_share: float | None) -> Bounds | None:
    """Return the bounds of the mean latency at ``rate`` jobs/s; None where they do not speak of this level."""
    if full_share is None or full_share > HARDLY:
        return None
    longest = max(lengths)
    return mean_latency(rate, run_ms=fitted.lane.tau0_ms, job_ms=fitted.lane.row_cost_ms(longest))
