"""From notes to a report, and to words."""

import msgspec
import pytest

from loadgen.generator.ledger import NOT_ENDED, Ledger
from loadgen.generator.plan import Follow, Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.said import Progress, Said
from loadgen.generator.summary import Used, doubts, report
from loadgen.generator.words import words
from tests.finalrecords import record

CPU = Used(own_s=0.3, others_s=0.5, by_name={"ingress": 0.2})


def run_of(ledger: Ledger, *, warm_s: float = 0.0, seconds: float = 3.0, follow: Follow = "push") -> Report:
    """Return the report of a run that is over."""
    plan = Plan(schedule=Schedule(rate=1.0, seconds=seconds), warm_s=warm_s, budget_ms=100.0, follow=follow)
    return report(plan, ledger, began_at="2026-01-31T12:00:00.000Z", used=CPU)


def job(
    ledger: Ledger,
    number: int,
    *,
    accepted_s: float | None = None,
    ended_s: float | None = None,
    status: str = "done",
) -> None:
    """Note a request that was sent on time, its 202 and its end."""
    due = ledger.due_s[number]
    ledger.send(number, due + 0.0001)
    if accepted_s is not None:
        ledger.answer(number, 202, accepted_s)
    if ended_s is not None:
        ledger.end(number, record(status=status, total_ms=7.0, batch=f"b{number}"), ended_s)


def whole() -> Report:
    """A warm-up of one job, then: one in time, one late, one refused without a hint, one that never ended."""
    ledger = Ledger([0.5, 1.0, 1.5, 2.0, 2.5], warm_s=1.0)
    job(ledger, 0, accepted_s=0.6, ended_s=1.5)
    job(ledger, 1, accepted_s=1.01, ended_s=1.05)
    job(ledger, 2, accepted_s=1.6, ended_s=3.75)
    job(ledger, 3)
    ledger.answer(3, 503, 2.1)
    ledger.hurry(3)
    job(ledger, 4, accepted_s=2.6)
    ledger.fail(4, NOT_ENDED)
    assert (ledger.sent, ledger.accepted, ledger.ended, ledger.failed) == (5, 4, 3, 2)
    return run_of(ledger, warm_s=1.0)


def test_what_is_counted() -> None:
    """Requests past the warm-up alone; each error once by kind, and what is hurried beside its status."""
    found = whole()
    assert (found.seconds, found.offered, found.accepted) == (2.0, 4, 3)
    assert found.statuses == {"done": 2}
    assert found.errors == {"503": 1, "hurried": 1, "not_ended": 1}
    assert (found.done, found.in_time, found.goodput) == (2, 1, 0.25)
    assert (found.submit.count, found.pushed.count, found.stored.count, found.lag.count) == (3, 2, 2, 4)
    assert found.pushed.max_ms == pytest.approx(2250, rel=0.001)
    assert found.stored.p50_ms == pytest.approx(7, rel=0.001)
    assert found.lag.p99_ms == pytest.approx(0.1, abs=0.001)
    assert found.batches.count == 2
    assert found.last_after_s == pytest.approx(3.75 - 2.5001)
    assert (found.own_cpu_s, found.others_cpu_s, found.cpu_s) == (0.3, 0.5, {"ingress": 0.2})
    assert found.invalid == []


def test_what_is_in_the_system() -> None:
    """Jobs of the warm-up too, from the 202 to the end; one that never ended stays."""
    found = whole()
    assert (found.at_open, found.at_close) == (1, 2)
    inside = (1.5 - 1.0) + (1.05 - 1.01) + (3.0 - 1.6) + (3.0 - 2.6)
    assert found.mean_in_system == pytest.approx(inside / 2.0)


def test_seconds_count_from_the_opening() -> None:
    """Up to the last that happened; latency is of what was due in them."""
    seconds = whole().timeline
    assert [one.at_s for one in seconds] == [0, 1, 2]
    assert [one.due for one in seconds] == [2, 2, 0]
    assert [one.accepted for one in seconds] == [2, 1, 0]
    assert [one.ended for one in seconds] == [1, 0, 1]
    assert [one.in_system for one in seconds] == [1, 2, 1]
    assert seconds[0].p50_ms == pytest.approx(50)
    assert seconds[0].p99_ms == pytest.approx(2250)
    assert (seconds[1].p50_ms, seconds[1].p99_ms) == (None, None)


def test_a_job_that_ends_before_its_202_was_never_in_the_system() -> None:
    """The notifier may be faster than the answer."""
    ledger = Ledger([0.0], warm_s=0.0)
    job(ledger, 0, accepted_s=0.5, ended_s=0.4)
    found = run_of(ledger)
    assert found.mean_in_system == 0
    assert [one.in_system for one in found.timeline] == [0]


def test_what_goes_wrong_in_the_warm_up_is_not_counted() -> None:
    """It shows in the progress alone."""
    ledger = Ledger([0.5, 1.0], warm_s=1.0)
    for number in range(2):
        ledger.send(number, ledger.due_s[number])
        ledger.answer(number, 429, 1.1)
        ledger.hurry(number)
    assert ledger.failed == 2
    assert run_of(ledger, warm_s=1.0).errors == {"429": 1, "hurried": 1}


def test_a_run_without_a_request() -> None:
    """Nothing is said of what was not."""
    found = run_of(Ledger([], warm_s=0.0))
    assert (found.offered, found.timeline, found.last_after_s) == (0, [], 0.0)
    assert found.submit.p99_ms is None
    assert found.goodput != found.goodput


def test_records_are_not_pushes() -> None:
    """Jobs that were followed by their records have no time of a frame, and are in time all the same."""
    ledger = Ledger([0.0], warm_s=0.0)
    job(ledger, 0, accepted_s=0.01, ended_s=0.02)
    found = run_of(ledger, follow="records")
    assert (found.pushed.count, found.in_time) == (0, 1)
    assert found.cached == 0


def test_a_stamp_from_far_away_does_not_make_a_long_timeline() -> None:
    """Records are read from a server, whose clock and word are its own."""
    ledger = Ledger([0.0, 1.0], warm_s=0.0)
    job(ledger, 0, accepted_s=0.01, ended_s=1e300)
    job(ledger, 1, accepted_s=1.01, ended_s=-1e300)
    found = run_of(ledger, follow="records")
    assert len(found.timeline) == 90_001
    assert sum(one.ended for one in found.timeline) == 2


def test_nobody_knows_how_many_are_in_the_system_when_none_is_followed() -> None:
    """Accepted jobs would seem to stay for good."""
    ledger = Ledger([0.0], warm_s=0.0)
    job(ledger, 0, accepted_s=0.01)
    assert run_of(ledger, follow="nothing").mean_in_system is None


def test_what_did_not_end_as_done_is_not_in_time() -> None:
    """A failure counts by its status alone."""
    ledger = Ledger([0.0], warm_s=0.0)
    job(ledger, 0, accepted_s=0.01, ended_s=0.02, status="failed")
    found = run_of(ledger)
    assert (found.statuses, found.in_time, found.stored.count, found.batches.count) == (
        {"failed": 1},
        0,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("lag_p99_ms", "share", "says"),
    [
        (None, 0.0, []),
        (1.0, 0.8, []),
        (1.01, 0.1, ["late by 1.01 ms"]),
        (0.1, 0.81, ["81 % of a core"]),
        (2.0, 0.95, ["late by", "95 %"]),
    ],
)
def test_what_makes_a_run_invalid(lag_p99_ms: float | None, share: float, says: list[str]) -> None:
    """Late sends, or a generator that was short of CPU; with the figure."""
    found = doubts(lag_p99_ms, share)
    assert len(found) == len(says)
    assert all(part in line for part, line in zip(says, found, strict=True))


def test_a_report_travels_as_json() -> None:
    """What the generator says is what is heard."""
    said = Said(progress=Progress(at_s=1, sent=2, accepted=3, ended=4, failed=5), report=whole())
    assert msgspec.json.decode(msgspec.json.encode(said), type=Said) == said


def test_a_report_in_words() -> None:
    """Counts, errors by kind, goodput, percentiles, batches, lag and CPU; what was not seen is none."""
    lines = words(whole())
    assert lines[0] == "4 jobs in 2 s (constant), 3 accepted, 2 done"
    assert lines[1] == "errors: 1 503, 1 hurried, 1 not_ended"
    assert lines[2].startswith("goodput: 25.00 % done within 100 ms, 1.0 jobs/s done")
    assert lines[3].startswith("submit, due to 202: p50 10")
    assert any(line.startswith("pushed, due to frame: p50 ") for line in lines)
    assert "batches: 2, 1.00 jobs on average, 50.0 % padding, closed by 2 full" in lines
    assert lines[-1] == "of a core: generator 15 %, ingress 10 %, others 25 %"


def test_an_invalid_run_says_so_last() -> None:
    """Loudly, and one that follows nothing says nothing of jobs."""
    ledger = Ledger([0.0], warm_s=0.0)
    ledger.send(0, 0.5)
    ledger.fail(0, "no_connection")
    lines = words(run_of(ledger, follow="nothing"))
    assert lines[:3] == [
        "1 jobs in 3 s (constant), 0 accepted",
        "errors: 1 no_connection",
        "submit, due to 202: none",
    ]
    assert lines[-1] == "INVALID: sends were late by 500.22 ms at p99, 1 ms is the most"
    assert "none ended" in words(run_of(ledger, follow="push"))[0]
