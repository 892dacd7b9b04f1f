"""What is said of a poison."""

from typing import Any

import msgspec
import pytest

from inferq.jobs import JobRecord, decode_record
from loadgen.poison import ATTEMPTS, BOUND, Poisoned, judged, outcome


def record(status: str, batch: str = "", reason: str = "full") -> JobRecord:
    """Return a job that ended in this batch."""
    fields: dict[str, Any] = dict.fromkeys(
        ("result", "error", "deadline_at", "started_at", "finished_at", "timings_ms", "batch")
    )
    if batch:
        fields["batch"] = {
            "id": batch, "size": 8, "tokens": 8, "padded_tokens": 8, "close_reason": reason, "batcher": "b",
        }  # fmt: skip  # one batch
    fields |= {"job_id": "0", "status": status, "seq": 3, "model": "m", "cached": False, "attempt": 1}
    return decode_record(msgspec.json.encode(fields | {"created_at": "2026-01-31T12:00:00.123Z"}))


# A batch of 16 as halves leave it: the poison alone, and its mates in parts of 8, 4, 2 and 1.
HALVES = [record("done", f"b-{size}", "split") for size in (8, 4, 2, 1) for _ in range(size)]
OTHERS = [record("done", f"b-{number // 16 + 100}") for number in range(48)]


@pytest.mark.parametrize(("fault", "extra"), [("raise", 8), ("crash", 10), ("hang", 10)])
def test_runs_are_counted_from_outside(fault: str, extra: int) -> None:
    """Four that failed and were split, the poison's own, four that came out of it; one was needed anyhow."""
    found = outcome(fault, [*HALVES, record("failed"), *OTHERS], splits=4)
    assert found == Poisoned(fault=fault, done=63, failed=1, extra_runs=extra)
    assert all(figure.holds for figure in judged("streams", [found]))


def test_a_poison_that_stood_alone_costs_nobody() -> None:
    """It ran once, and would have."""
    assert outcome("raise", [record("failed"), *OTHERS], splits=0).extra_runs == 0


@pytest.mark.parametrize(("fault", "bound"), [("raise", BOUND), ("crash", BOUND * ATTEMPTS)])
def test_the_bound_is_for_each_attempt(fault: str, bound: int) -> None:
    """Nine extra runs for one that raises, as many for each attempt that is charged."""
    assert BOUND == 9
    for runs, holds in ((bound, True), (bound + 1, False)):
        *_, extra = judged("streams", [Poisoned(fault=fault, done=63, failed=1, extra_runs=runs)])
        assert extra.holds is holds


@pytest.mark.parametrize(("done", "failed"), [(62, 1), (62, 2), (63, 0)])
def test_everybody_else_is_done(done: int, failed: int) -> None:
    """A neighbour that was lost or failed shows, and so does a poison that was not failed."""
    figures = judged("streams", [Poisoned(fault="raise", done=done, failed=failed, extra_runs=0)])
    assert not all(figure.holds for figure in figures)
