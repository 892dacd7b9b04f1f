"""When a batch closes, on a clock that the tests turn by hand."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.policy import Close, CloseReason, Decision, Fixed, Greedy, Policy, Slo, View, Wait, make_policy
from inferq.errors import OperatorError

MAX = 4
WAIT_MS = 50
FIXED = Fixed(max_batch_size=MAX, max_wait_ms=WAIT_MS)
GREEDY = Greedy(max_batch_size=MAX)
SLO = Slo(max_batch_size=MAX)
# In sixteenths of a millisecond, so that every sum below is exact in binary.
ticks = st.integers(min_value=0, max_value=16 * 200)


def _view(jobs: int, oldest_at_s: float = 10.0, tokens_full: bool = False) -> View:
    return View(jobs=jobs, oldest_at_s=oldest_at_s if jobs else 0.0, tokens_full=tokens_full)


# One job; alone it takes 10 ms, with another 12: waiting for that is worth 10 / 2 - 2 = 3 ms.
WORTH = View(
    jobs=1,
    oldest_at_s=10.0,
    tokens_full=False,
    rows=1,
    batch_ms=10.0,
    next_ms=12.0,
    alone_ms=10.0,
    gap_s=0.002,
    last_at_s=10.0,
)


def _closes(policy: Policy, arrivals_s: Sequence[float], free_at_s: float) -> tuple[float, CloseReason, int]:
    """Ask as the batcher does: once the engine is free, at each arrival, and when the policy said to ask again.

    Returns when the first batch closed, why, and with how many waiting.
    """
    pending = sorted(arrivals_s)
    now_s = max(free_at_s, pending[0])
    for _ in range(len(pending) + 2):
        waiting = [at for at in pending if at <= now_s]
        decision = policy.decide(_view(len(waiting), min(waiting)), now_s)
        if isinstance(decision, Close):
            return now_s, decision.reason, len(waiting)
        assert decision.until_s is not None
        assert decision.until_s > now_s
        now_s = min([decision.until_s, *(at for at in pending if at > now_s)])
    raise AssertionError("the batch never closed")


@pytest.mark.parametrize(
    ("policy", "view", "now_s", "decision"),
    [
        (GREEDY, _view(0), 10.0, Wait(until_s=None)),
        (GREEDY, _view(1), 10.0, Close(reason=CloseReason.GREEDY)),
        (GREEDY, _view(MAX - 1), 10.0, Close(reason=CloseReason.GREEDY)),
        (GREEDY, _view(MAX), 10.0, Close(reason=CloseReason.FULL)),
        (GREEDY, _view(MAX + 9), 10.0, Close(reason=CloseReason.FULL)),
        (GREEDY, _view(2, tokens_full=True), 10.0, Close(reason=CloseReason.TOKENS)),
        (GREEDY, _view(MAX, tokens_full=True), 10.0, Close(reason=CloseReason.FULL)),
        (FIXED, _view(0), 10.0, Wait(until_s=None)),
        (FIXED, _view(1), 10.0, Wait(until_s=10.05)),
        (FIXED, _view(MAX - 1), 10.049, Wait(until_s=10.05)),
        (FIXED, _view(1), 10.05, Close(reason=CloseReason.WINDOW)),
        (FIXED, _view(1), 99.0, Close(reason=CloseReason.WINDOW)),
        (FIXED, _view(MAX), 10.0, Close(reason=CloseReason.FULL)),
        (FIXED, _view(MAX), 99.0, Close(reason=CloseReason.FULL)),
        (FIXED, _view(MAX + 1), 10.0, Close(reason=CloseReason.FULL)),
        (FIXED, _view(2, tokens_full=True), 10.0, Close(reason=CloseReason.TOKENS)),
        (SLO, _view(0), 10.0, Wait(until_s=None)),
        (SLO, _view(1), 10.0, Close(reason=CloseReason.GREEDY)),
        (SLO, _view(MAX), 10.0, Close(reason=CloseReason.FULL)),
        (SLO, _view(2, tokens_full=True), 10.0, Close(reason=CloseReason.TOKENS)),
        (SLO, replace(WORTH, jobs=MAX), 10.0, Close(reason=CloseReason.FULL)),
    ],
)
def test_decisions(policy: Policy, view: View, now_s: float, decision: Decision) -> None:
    """Nothing waits: ask at the next arrival. Full closes at once. Else greedy closes, and fixed asks its window."""
    assert policy.decide(view, now_s) == decision


@pytest.mark.parametrize(
    ("view", "now_s", "decision"),
    [
        # The next one is expected soon enough: until the silence has lasted for what the wait is worth.
        (WORTH, 10.0, Wait(until_s=10.003)),
        (WORTH, 10.0025, Wait(until_s=10.003)),
        (WORTH, 10.003, Close(reason=CloseReason.GREEDY)),
        (replace(WORTH, gap_s=0.0), 10.001, Wait(until_s=10.003)),
        # It is not, or nobody knows.
        (replace(WORTH, gap_s=0.003), 10.0, Close(reason=CloseReason.GREEDY)),
        (replace(WORTH, gap_s=inf), 10.0, Close(reason=CloseReason.GREEDY)),
        # Three rows wait for one: 10 / 4 - 2 = 0.5 ms is all that is worth.
        (replace(WORTH, rows=3), 10.0, Close(reason=CloseReason.GREEDY)),
        (replace(WORTH, rows=3, gap_s=0.0004), 10.0, Wait(until_s=10.0005)),
        # One more makes the batch longer than it saves.
        (replace(WORTH, next_ms=15.0, gap_s=0.0), 10.0, Close(reason=CloseReason.GREEDY)),
        # The next one would run on another lane meanwhile.
        (replace(WORTH, spare_lanes=1, gap_s=0.0), 10.0, Close(reason=CloseReason.GREEDY)),
        # Somebody's budget ends first, or has ended.
        (replace(WORTH, latest_s=10.001), 10.0, Wait(until_s=10.001)),
        (replace(WORTH, latest_s=10.001), 10.001, Close(reason=CloseReason.SLO)),
        (replace(WORTH, latest_s=9.0), 10.0, Close(reason=CloseReason.SLO)),
    ],
)
def test_slo_waits_while_it_pays(view: View, now_s: float, decision: Decision) -> None:
    """And for no longer than that, nor than every budget allows."""
    assert SLO.decide(view, now_s) == decision


_ms = st.floats(0.01, 100)


@given(st.integers(1, MAX - 1), _ms, st.floats(0, 100), _ms, st.floats(0, 0.2), st.floats(0, 0.2))
def test_slo_waits_exactly_when_the_sum_of_latencies_gains(
    rows: int, batch_ms: float, longer_ms: float, alone_ms: float, gap_s: float, silence_s: float
) -> None:
    """Each row pays the wait and the longer batch; the next one saves this batch and a run alone."""
    view = replace(
        WORTH,
        rows=rows,
        batch_ms=batch_ms,
        next_ms=batch_ms + longer_ms,
        alone_ms=alone_ms,
        gap_s=gap_s,
        last_at_s=0.0,
    )
    wait_ms = max(gap_s, silence_s) * 1000
    cost = rows * (wait_ms + view.next_ms - batch_ms)
    saving = batch_ms + alone_ms - wait_ms - view.next_ms
    decision = SLO.decide(view, silence_s)
    if abs(saving - cost) > 1e-6:
        assert isinstance(decision, Wait) is (saving > cost)
    if isinstance(decision, Wait):
        assert decision.until_s is not None
        assert decision.until_s > silence_s
        assert SLO.decide(view, decision.until_s) == Close(reason=CloseReason.GREEDY)


def test_a_later_arrival_does_not_extend_the_window() -> None:
    """A job every 20 ms would keep a window open that each arrival starts anew; this one ends after 50 ms."""
    assert _closes(FIXED, [0.0, 0.02, 0.04, 0.06], free_at_s=0.0) == (0.05, CloseReason.WINDOW, 3)


def test_the_window_opens_with_the_oldest_arrival_not_with_the_engine() -> None:
    """The engine came free 30 ms after the job: only the remaining 20 ms are waited."""
    assert _closes(FIXED, [0.0], free_at_s=0.03) == (0.05, CloseReason.WINDOW, 1)


def test_time_that_the_engine_was_busy_counts() -> None:
    """A window that ended while the engine computed is not waited for again."""
    assert _closes(FIXED, [0.0, 0.06], free_at_s=0.07) == (0.07, CloseReason.WINDOW, 2)


def test_the_arrival_that_fills_the_batch_closes_it() -> None:
    """The rest of the window is not waited for."""
    assert _closes(FIXED, [0.0, 0.01, 0.02, 0.03, 0.04], free_at_s=0.0) == (0.03, CloseReason.FULL, 4)


@given(st.lists(ticks, min_size=1, max_size=2 * MAX), ticks, ticks)
def test_fixed_closes_when_full_or_at_the_end_of_the_window(
    arrivals: list[int], free_at: int, max_wait: int
) -> None:
    """Whichever comes first, and never before the engine is free; however the arrivals fall."""
    at_s = sorted(tick / 16384 for tick in arrivals)
    free_at_s = free_at / 16384
    policy = Fixed(max_batch_size=MAX, max_wait_ms=max_wait)
    full_at_s = at_s[MAX - 1] if len(at_s) >= MAX else float("inf")
    ends_s = at_s[0] + max_wait / 1000
    closed_s, reason, jobs = _closes(policy, at_s, free_at_s)
    assert closed_s == max(free_at_s, at_s[0], min(full_at_s, ends_s))
    assert reason is (CloseReason.FULL if jobs >= MAX else CloseReason.WINDOW)


@given(st.lists(ticks, min_size=1, max_size=2 * MAX), ticks)
def test_greedy_never_waits(arrivals: list[int], free_at: int) -> None:
    """The batch closes the moment the engine is free and anything is there."""
    at_s = sorted(tick / 16384 for tick in arrivals)
    free_at_s = free_at / 16384
    closed_s, reason, jobs = _closes(GREEDY, at_s, free_at_s)
    assert closed_s == max(free_at_s, at_s[0])
    assert reason is (CloseReason.FULL if jobs >= MAX else CloseReason.GREEDY)


@pytest.mark.parametrize(
    ("name", "max_wait_ms", "policy"),
    [
        ("greedy", 0, GREEDY),
        ("greedy", WAIT_MS, GREEDY),
        ("fixed", WAIT_MS, FIXED),
        ("fixed", 0, GREEDY),
        ("slo", 0, SLO),
        ("slo", WAIT_MS, SLO),
    ],
)
def test_policies_have_names(name: str, max_wait_ms: int, policy: Policy) -> None:
    """A fixed window of no length is greedy."""
    assert make_policy(name, max_batch_size=MAX, max_wait_ms=max_wait_ms) == policy


def test_an_unknown_policy_is_refused() -> None:
    """The line says which there are."""
    with pytest.raises(OperatorError, match="there is no batch policy 'slow': take fixed, greedy or slo"):
        make_policy("slow", max_batch_size=MAX, max_wait_ms=WAIT_MS)
