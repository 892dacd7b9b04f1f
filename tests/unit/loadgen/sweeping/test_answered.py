"""A level of a closed loop, made of what its clients saw."""

import pytest

from loadgen.generator.jobrecord import Batch, Record, Timings
from loadgen.sweeping.answered import Answer, Count, level

COUNT = Count(opens_s=10.0, closes_s=20.0, own_cpu_s=1.0)


def answer(sent_s: float, *, took_s: float = 0.1, status: str = "done", batch: str = "") -> Answer:
    """Return a request whose job was created and stored 1 ms after it was sent and before it was seen."""
    return Answer(
        sent_s=sent_s,
        accepted_s=sent_s + 0.002,
        ended_s=sent_s + took_s,
        record=Record(
            status=status,
            timings_ms=Timings(total=took_s * 1000 - 3, inference=10.0),
            batch=Batch(id=batch, size=2, tokens=6, padded_tokens=8, close_reason="greedy")
            if batch
            else None,
            cached=not batch,
        ),
    )


def test_a_level_counts_what_ended_in_it() -> None:
    """Ten a second for 12 s, one after the other, of which those count that end from 10 to 20."""
    answers = [answer(9.0 + number / 10, batch=f"{number // 2}") for number in range(120)]
    found = level(answers, COUNT, in_flight=1, budget_ms=200, most_rows=2)
    assert found.level == 1
    assert found.achieved == pytest.approx(10, abs=0.11)
    assert found.p99_ms == pytest.approx(100, rel=0.01)
    assert (found.mean_batch, found.full_share, found.padding_share) == (2, 1, 0.25)
    assert (found.goodput, found.errors, found.cached, found.invalid) == (1, 0, 0, [])
    assert found.law is not None
    assert found.law.holds


def test_what_failed_is_no_throughput() -> None:
    """Refused jobs and such that ended otherwise are errors."""
    failed = Answer(sent_s=12, accepted_s=12, ended_s=12.001, record=None)
    found = level(
        [answer(11, took_s=0.3), failed, answer(13, status="expired")],
        COUNT,
        in_flight=1,
        budget_ms=200,
        most_rows=None,
    )
    assert (found.offered, found.achieved, found.errors) == (0.3, 0.1, 2)
    assert (found.goodput, found.full_share, found.cached) == (0, None, 1)


def test_clients_that_were_short_of_cpu_make_it_invalid() -> None:
    """Then the rate may be theirs."""
    count = Count(opens_s=10, closes_s=20, own_cpu_s=9.0)
    assert level([answer(11)], count, in_flight=1, budget_ms=200, most_rows=None).invalid


def test_a_level_in_which_nothing_was_done() -> None:
    """It has neither latency nor law."""
    found = level([], COUNT, in_flight=1, budget_ms=200, most_rows=16)
    assert (found.achieved, found.p50_ms, found.mean_ms, found.law, found.goodput) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_jobs_that_were_lost_from_the_records_break_the_law() -> None:
    """The clients had four in flight all the time, the records tell of half a job."""
    answers = [answer(9.0 + number / 10, took_s=0.4) for number in range(120)]
    short = [
        Answer(
            sent_s=one.sent_s,
            accepted_s=one.accepted_s,
            ended_s=one.ended_s,
            record=Record(status="done", timings_ms=Timings(total=50.0)),
        )
        for one in answers
    ]
    found = level(short, COUNT, in_flight=4, budget_ms=500, most_rows=None)
    assert found.law is not None
    assert not found.law.holds
