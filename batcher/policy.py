"""When a batch closes. Pure: `now` comes in, a decision goes out.

Rules:

1. A full window closes at once, whatever the policy: full of jobs, or of tokens.
2. `greedy` closes as soon as the engine has room and anything waits. While a batch computes, the next one fills.
3. `fixed` also waits for company, until `max_wait_ms` after the arrival of the oldest job in the window. The window is
   anchored to that arrival: neither a later arrival nor the time that the engine was busy starts it anew.
4. `slo` waits for the next arrival only while that pays and nobody's budget is at stake. With n jobs in the batch, the
   next one expected in g, and c(n) the predicted time of the batch, waiting costs each of the n jobs g + c(n+1) - c(n)
   and saves the next one c(n) - g + c(1) - c(n+1), which it would otherwise wait for this batch and then run alone.
   It waits while the saving is larger than the cost, so while g < c(1) / (n+1) - (c(n+1) - c(n)): the myopic ("one step
   ahead") rule of optimal stopping, applied to the sum of latencies, as in the bulk-service queue of Deb and Serfozo
   (1973), whose optimal policies are such thresholds on n. The silence since the last arrival counts as a gap, too, so
   nobody waits for long for a job that does not come. Where another lane is free the next job would not wait for this
   batch, so waiting never pays.
   The batch closes for its budgets (`slo`) when one more wait would take the most urgent job past its own.
5. The engine has room whenever a policy is asked.

Tried in the simulator and not kept: waiting for the largest batch that the budget allows (Clipper's and Triton's rule)
spends the budget at light load and gains nothing under a heavy one: at 30 % of capacity a median of 125 ms instead of 8
on a small model's CPU lanes, and of 72 instead of 42 where a run costs 20 ms. `greedy` is as good as rule 4 on a CPU
and nearly as good elsewhere, since a busy engine lets the next batch fill by itself; rule 4 is kept as it is never
worse.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Protocol

from inferq.errors import OperatorError


class CloseReason(StrEnum):
    """Why a batch closed, as records and metrics show it."""

    FULL = "full"
    WINDOW = "window"
    GREEDY = "greedy"
    SLO = "slo"
    TOKENS = "tokens"
    SPLIT = "split"


@dataclass(frozen=True, kw_only=True)
class View:
    """What a policy sees.

    The window: how many jobs wait, the oldest one's arrival (s), and whether their tokens fill a batch. The batch that
    would run: its jobs, its predicted time, what one more job would make of it, what a job takes alone (ms), and the
    latest moment (s) at which it may start with one more job and keep everybody's budget. ``gap_s`` is the time to
    expect between arrivals, ``last_at_s`` when the last came, ``spare_lanes`` how many lanes would be left free.
    """

    jobs: int
    oldest_at_s: float
    tokens_full: bool
    rows: int = 0
    batch_ms: float = 0.0
    next_ms: float = 0.0
    alone_ms: float = 0.0
    latest_s: float = inf
    gap_s: float = inf
    last_at_s: float = 0.0
    spare_lanes: int = 0


@dataclass(frozen=True, kw_only=True)
class Close:
    """Run the next batch now."""

    reason: CloseReason


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Ask again when something changes, or at ``until_s`` at the latest."""

    until_s: float | None


Decision = Close | Wait


class Policy(Protocol):
    """Decides when the next batch closes."""

    def decide(self, view: View, now_s: float) -> Decision:
        """Return what to do at ``now_s``, on the clock of `View.oldest_at_s`."""


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Never waits."""

    max_batch_size: int

    def decide(self, view: View, now_s: float) -> Decision:
        """Close with whatever there is."""
        if not view.jobs:
            return Wait(until_s=None)
        return _full(view, self.max_batch_size) or Close(reason=CloseReason.GREEDY)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Waits for a full batch until ``max_wait_ms`` after the oldest arrival."""

    max_batch_size: int
    max_wait_ms: int

    def decide(self, view: View, now_s: float) -> Decision:
        """Close a full batch, or at the end of the window."""
        if not view.jobs:
            return Wait(until_s=None)
        if full := _full(view, self.max_batch_size):
            return full
        ends_s = view.oldest_at_s + self.max_wait_ms / 1000
        return Close(reason=CloseReason.WINDOW) if now_s >= ends_s else Wait(until_s=ends_s)


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Waits for company while it pays and every budget is kept."""

    max_batch_size: int

    def decide(self, view: View, now_s: float) -> Decision:
        """Close, or wait for the next arrival."""
        if not view.jobs:
            return Wait(until_s=None)
        if full := _full(view, self.max_batch_size):
            return full
        if now_s >= view.latest_s:
            return Close(reason=CloseReason.SLO)
        worth_s = _worth_ms(view) / 1000
        if view.gap_s < worth_s and now_s < view.last_at_s + worth_s:
            return Wait(until_s=min(view.last_at_s + worth_s, view.latest_s))
        return Close(reason=CloseReason.GREEDY)


def make_policy(name: str, *, max_batch_size: int, max_wait_ms: int) -> Policy:
    """Return the policy of that name; `fixed` that waits for nothing is `greedy`."""
    if name == "slo":
        return Slo(max_batch_size=max_batch_size)
    if name == "greedy" or (name == "fixed" and max_wait_ms == 0):
        return Greedy(max_batch_size=max_batch_size)
    if name == "fixed":
        return Fixed(max_batch_size=max_batch_size, max_wait_ms=max_wait_ms)
    raise OperatorError(f"there is no batch policy {name!r}: take fixed, greedy or slo")


def _full(view: View, max_batch_size: int) -> Close | None:
    if view.jobs >= max_batch_size:
        return Close(reason=CloseReason.FULL)
    return Close(reason=CloseReason.TOKENS) if view.tokens_full else None


def _worth_ms(view: View) -> float:
    """Return how long it is at most worth to wait for one more job."""
    if view.spare_lanes:
        return 0.0
    return view.alone_ms / (view.rows + 1) - (view.next_ms - view.batch_ms)
