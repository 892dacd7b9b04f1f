"""The schedule of tries: each decision, and whole days on a virtual clock."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.webhookplan import (
    DAY_MS,
    JITTER,
    MOST_WAIT_MS,
    Decision,
    Outcome,
    Tried,
    answered,
    decide,
    retry_after_ms,
    wait_after,
)

NOW_MS = 1_769_860_800_000.0
FIRST_MS = 5_000
FAILED = Tried(outcome=Outcome.STATUS, status=500)


def day(first_ms: float, spreads: list[float], *, tried: Tried = FAILED, takes_ms: float = 0) -> list[float]:
    """When tries are made of a receiver that takes nothing, in ms after the first one was due, until it is given up."""
    at_ms, times = NOW_MS, []
    while True:
        times.append(at_ms - NOW_MS)
        now_ms = at_ms + takes_ms
        decision = decide(
            tried,
            tries=len(times),
            since_ms=NOW_MS,
            now_ms=now_ms,
            first_wait_ms=first_ms,
            spread=spreads[len(times) % len(spreads)],
        )
        if decision.state == "failed":
            return times
        assert decision.state == "pending"
        assert decision.due_ms is not None
        assert decision.due_ms >= now_ms
        at_ms = decision.due_ms


def test_a_day_of_tries_is_as_documented() -> None:
    """Fourteen tries, of which the last is a day after the first; docs/webhooks.md has this very table."""
    times = day(FIRST_MS, [0.5])
    assert [time / 1000 for time in times] == [
        0, 5, 20, 65, 200, 605, 1820, 5465, 16400, 30800, 45200, 59600, 74000, 86400,
    ]  # fmt: skip  # a schedule reads in one line


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 10_000))
def test_every_day_ends_a_day_after_its_begin(spreads: list[float], takes_ms: float) -> None:
    """By whatever chance, and however long tries take: thirteen to sixteen tries, none after the day."""
    times = day(FIRST_MS, spreads, takes_ms=takes_ms)
    assert 13 <= len(times) <= 16
    assert times[-1] == pytest.approx(DAY_MS, abs=10_001)
    assert times == sorted(times)


@given(st.integers(10, 3_600_000), st.floats(0, 1))
def test_any_first_wait_fills_the_day(first_ms: int, spread: float) -> None:
    """It shortens or lengthens the beginning, and changes nothing about the end."""
    times = day(first_ms, [spread])
    assert times[1] == pytest.approx(first_ms * (1 + JITTER * (2 * spread - 1)), abs=1)
    assert times[-1] == DAY_MS
    assert 6 <= len(times) <= 24


@given(st.integers(1, 10_000), st.integers(10, 3_600_000))
def test_waits_grow_to_their_limit(tries: int, first_ms: int) -> None:
    """Threefold each time, four hours at most, however many tries there were."""
    wait_ms, following_ms = wait_after(tries, first_ms), wait_after(tries + 1, first_ms)
    assert following_ms == min(3 * wait_ms, MOST_WAIT_MS) or wait_ms == MOST_WAIT_MS
    assert wait_after(1, first_ms) == first_ms


@pytest.mark.parametrize(
    ("status", "tried"),
    [
        (200, Tried(outcome=Outcome.DELIVERED, status=200)),
        (299, Tried(outcome=Outcome.DELIVERED, status=299)),
        (410, Tried(outcome=Outcome.GONE, status=410)),
        *(
            (status, Tried(outcome=Outcome.STATUS, status=status))
            for status in (199, 300, 302, 400, 404, 429, 503)
        ),
    ],
)
def test_an_answer_is_told_by_its_status(status: int, tried: Tried) -> None:
    """2xx is a delivery, 410 the end, and all else a failure; a receiver that answers is there."""
    assert answered(status) == tried
    assert tried.answered
    assert not Tried(outcome=Outcome.TIMEOUT).answered


@pytest.mark.parametrize(
    ("tried", "decision"),
    [
        (answered(204), Decision(state="delivered")),
        (answered(410), Decision(state="failed")),
        (answered(302), Decision(state="pending", due_ms=round(NOW_MS) + FIRST_MS)),
        *(
            (Tried(outcome=outcome), Decision(state="pending", due_ms=round(NOW_MS) + FIRST_MS))
            for outcome in set(Outcome) - {Outcome.DELIVERED, Outcome.GONE}
        ),
    ],
)
def test_what_follows_from_a_try(tried: Tried, decision: Decision) -> None:
    """Everything but a delivery and 410 is tried again."""
    made = decide(tried, tries=1, since_ms=NOW_MS, now_ms=NOW_MS, first_wait_ms=FIRST_MS, spread=0.5)
    assert made == decision


def test_a_delivery_counts_however_late() -> None:
    """After its day as well."""
    late = decide(
        answered(200), tries=9, since_ms=NOW_MS - 2 * DAY_MS, now_ms=NOW_MS, first_wait_ms=5, spread=0.5
    )
    assert late.state == "delivered"


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("120", 120), (" 7 ", 7), ("0", None), ("-5", None), ("1.5", None), ("", None), ("soon", None), ("٣", None),
        ("86401", 86_400), ("9" * 30, 86_400), ("Sun, 99 Nov 2026", None), ("\x00", None),
        (format_datetime(datetime.fromtimestamp(NOW_MS / 1000 + 90, UTC), usegmt=True), 90),
        (format_datetime(datetime.fromtimestamp(NOW_MS / 1000 - 90, UTC), usegmt=True), None),
        ("Sat, 31 Jan 2026 12:01:30 -0000", 90), ("Saturday, 31-Jan-26 12:01:30 GMT", 90),
    ],
)  # fmt: skip  # texts side by side
def test_a_retry_after_is_read(text: str, wait_s: float | None) -> None:
    """Seconds or a date in the future; anything else counts as none."""
    assert retry_after_ms(text, NOW_MS) == (None if wait_s is None else wait_s * 1000)


@pytest.mark.parametrize("status", [400, 429, 503, 302])
def test_a_retry_after_is_waited_for_at_least(status: int) -> None:
    """Whatever the status, where it is longer than the schedule's own wait, and never past the day's end."""

    def due(after: str, tries: int) -> float:
        tried = answered(status, retry_after=after, now_ms=NOW_MS)
        made = decide(tried, tries=tries, since_ms=NOW_MS, now_ms=NOW_MS, first_wait_ms=FIRST_MS, spread=0.5)
        assert made.due_ms is not None
        return made.due_ms - NOW_MS

    assert due("60", 1) == 60_000
    assert due("60", 9) == MOST_WAIT_MS
    assert due("999999", 1) == DAY_MS
