"""The mean latency of a server that batches all that waits, in closed form, between two bounds. Pure.

Conditions: Poisson arrivals of ``rate`` jobs/s; one lane; whenever it is free, everything that waits runs at once as
one batch of any size, and a job that finds it free runs alone at once; a batch of b takes exactly ``job_ms`` b +
``run_ms``. The load, ``rate`` times ``job_ms``, is below 1. Our `greedy` policy on one lane is that server where jobs
are of one length and the largest batch is never reached; near saturation a bounded batch makes latency longer than
both bounds say.

In s, with r the rate, a a job's time, t a run's, and B the size of a batch:

1. The next batch is what arrives during this one, N, or 1 when nothing does, with probability p. So
   E[B] = r (a E[B] + t) + p, that is E[B] = (r t + p) / (1 - r a).
2. Of Poisson arrivals, E[N**2] = E[N] + r**2 E[(a B + t)**2]. So
   E[B**2] = (E[B] (1 + 2 r**2 a t) + r**2 t**2) / (1 - r**2 a**2).
3. Who arrives during a batch waits for half of it on average and then stays for the next one. Over a batch the waits
   add up to r E[(a B + t)**2] / 2 and the stays to E[B (a B + t)]; by point 2 the mean latency is, exactly,
   W = t + (a + 1 / (2 r)) E[B**2] / E[B] - 1 / (2 r), which falls as E[B] grows.
4. E[B] is at least 1, and at least r t / (1 - r a), since p is at least 0. Each gives an upper bound, and the smaller
   one counts: the first is close at light load, the second under a heavy one, where it is
   1.5 t / (1 - r a) + a (2 + r a) / (2 (1 - (r a)**2)).
5. A batch takes at least a + t, so p is at most exp(-r (a + t)), which bounds E[B] from above and W from below.

The model, and the smaller of two upper bounds as a close approximation, are those of Inoue, "Queueing Analysis of
GPU-Based Inference Servers with Dynamic Batching: A Closed-Form Characterization" (2019, arXiv 1912.06322). The bounds
here rest on the derivation above and were not compared with the text of the paper; the lower one is our own addition.
"""

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The mean latency is at least and at most this (ms)."""

    least_ms: float
    most_ms: float


def mean_latency(rate: float, *, run_ms: float, job_ms: float) -> Bounds | None:
    """Return the bounds under ``rate`` jobs/s, for batches of b that take ``run_ms`` + b ``job_ms``.

    None when the load is 1 or more: no queue is stable then.

    Raises:
        ValueError: the rate is not above 0, a time is below 0, or both are 0.
    """
    if not (rate > 0 and run_ms >= 0 and job_ms >= 0 and run_ms + job_ms > 0):
        raise ValueError(f"no batch server: rate {rate:g}/s, {run_ms:g} ms a run, {job_ms:g} ms a job")
    run_s, job_s = run_ms / 1000, job_ms / 1000
    load = rate * job_s
    if load >= 1:
        return None
    least_batch = max(1.0, rate * run_s / (1 - load))
    most_batch = (rate * run_s + exp(-rate * (run_s + job_s))) / (1 - load)
    return Bounds(
        least_ms=1000 * _mean_s(rate, run_s, job_s, most_batch),
        most_ms=1000 * _mean_s(rate, run_s, job_s, least_batch),
    )


def _mean_s(rate: float, run_s: float, job_s: float, mean_batch: float) -> float:
    """Return the exact mean latency (s) for the mean batch: points 2 and 3 above."""
    squares = (1 + 2 * rate**2 * job_s * run_s + (rate * run_s) ** 2 / mean_batch) / (1 - (rate * job_s) ** 2)
    return run_s + (job_s + 1 / (2 * rate)) * squares - 1 / (2 * rate)
