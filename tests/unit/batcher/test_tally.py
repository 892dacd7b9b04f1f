"""What a batcher counts, for its heartbeat and as metrics."""

from typing import Final

import numpy as np
import pytest

from batcher.engine import Answer, TensorAnswer
from batcher.item import Item
from batcher.policy import CloseReason
from batcher.settling import Batch
from batcher.tally import RECENT_JOBS, Tally
from inferq.jobs import Job, Status
from inferq.steps import Origin
from inferq.telemetry import Metrics
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor

ARRIVED_MS: Final = 1_250.0


def item(length: int) -> Item:
    """A job that was accepted 250 ms before it arrived."""
    job = Job(job_id="a", model="m", text="t", created_ms=1000)
    return Item(
        job_id="a",
        length=length,
        arrived_s=0.0,
        budget_s=1.0,
        origin=Origin(job=job, queue="q", message=b""),
        deliveries=[],
        ids=range(length),
        truncated=False,
        arrived_ms=ARRIVED_MS,
        tokenize_ms=0.0,
    )


def batch(*lengths: int, twins: int = 0, reason: CloseReason = CloseReason.FULL) -> Batch:
    """A batch that took 20 ms."""
    return Batch(
        items=[item(length) for length in lengths],
        twins=[item(lengths[0]) for _ in range(twins)],
        answer=Answer(
            logits=np.zeros((len(lengths), 2), dtype=np.float32),
            compute_ms=20.0,
            padded_tokens=len(lengths) * max(lengths),
        ),
        closed_ms=0.0,
        ended_ms=0.0,
        reason=reason,
    )


def test_tensors_are_not_padded() -> None:
    """A batch of tensors has as many rows as its jobs brought, whichever brought the most."""
    inputs = (Tensor(name="x", datatype=Datatype.INT8, shape=(1,), data=b"a"),)
    ran = batch(1, 3)
    ran.answer = TensorAnswer(outputs=[], compute_ms=1.0)
    for one in ran.items:
        one.inputs = inputs
    assert (ran.tokens, ran.padded_tokens) == (4, 4)
    assert batch(1, 3).padded_tokens == 6


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Read a sample."""
    return metrics.registry.get_sample_value(f"inferq_{name}", labels)


def test_batches_are_counted_by_what_they_were() -> None:
    """Rows, tokens with and without padding, reasons, times; twins count as jobs and cost no row."""
    metrics = Metrics()
    tally = Tally(metrics)
    tally.closed(0.5)
    tally.ran(batch(2, 4, twins=3), 15.0)
    tally.closed(0.25)
    tally.ran(batch(5, reason=CloseReason.SLO), 5.0)
    totals = tally.totals
    assert (totals.count, totals.jobs, totals.tokens, totals.padded_tokens) == (2, 6, 11, 13)
    assert totals.size_histogram == {"1": 1, "2": 1}
    assert totals.close_reasons == {"full": 1, "slo": 1}
    assert (totals.predicted_ms, totals.inference_ms, totals.window_age_ms) == (20.0, 40.0, 750.0)
    assert value(metrics, "batch_size_count") == 2
    assert value(metrics, "batch_size_sum") == 3
    assert value(metrics, "batch_close_total", reason="slo") == 1
    assert value(metrics, "batch_tokens_total", kind="useful") == 11
    assert value(metrics, "batch_tokens_total", kind="padded") == 13
    assert value(metrics, "window_age_seconds_sum") == pytest.approx(0.75)
    assert value(metrics, "inference_seconds_sum") == pytest.approx(0.04)
    assert value(metrics, "predicted_seconds_sum") == pytest.approx(0.02)
    assert value(metrics, "queue_wait_seconds_count") == 6
    assert value(metrics, "queue_wait_seconds_sum") == pytest.approx(1.5)
    assert value(metrics, "twins_total") == 3


def test_what_goes_wrong_is_counted() -> None:
    """Splits, restarts (told as a sum) and expiries, which are ends as well."""
    metrics = Metrics()
    tally = Tally(metrics)
    tally.split()
    for restarts in (2, 2, 5):
        tally.restarted(restarts)
    tally.expired(3)
    tally.expired(0)
    assert (tally.totals.splits, tally.totals.engine_restarts, tally.totals.expired) == (1, 5, 3)
    assert value(metrics, "batch_splits_total") == 1
    assert value(metrics, "engine_restarts_total") == 5
    assert value(metrics, "jobs_total", status="expired") == 3


def test_lookups_and_followers_are_counted() -> None:
    """By whether they found something."""
    metrics = Metrics()
    tally = Tally(metrics)
    for hit in (True, False, True):
        tally.looked_up(hit=hit, took_s=2e-6)
    tally.twin()
    assert value(metrics, "cache_total", place="local", outcome="hit") == 2
    assert value(metrics, "cache_total", place="local", outcome="miss") == 1
    assert value(metrics, "twins_total") == 1
    assert tally.hit_us == pytest.approx(2.0)
    assert Tally(Metrics()).hit_us == 0
    tally.keeps(7)
    assert value(metrics, "cache_results") == 7


def test_ends_make_the_rate_and_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs ended a second over the last ten, whatever their end; those before are forgotten."""
    now_s = 100.0
    monkeypatch.setattr("batcher.tally.time.monotonic", lambda: now_s)
    tally = Tally(Metrics())
    tally.started(4)
    tally.ended(Status.DONE, 3)
    tally.ended(Status.FAILED, 1)
    assert tally.drain_rate == pytest.approx(0.4)
    now_s = 105.0
    tally.ended(Status.DONE, 0)
    assert tally.progress_s == 100.0
    tally.expired(6)
    assert tally.progress_s == 105.0
    assert tally.drain_rate == pytest.approx(1.0)
    now_s = 111.0
    assert tally.drain_rate == pytest.approx(0.6)


def test_the_recent_rate_follows_the_load_once_enough_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two seconds where enough has ended in them; else over ten, since a few jobs say little."""
    now_s = 100.0
    monkeypatch.setattr("batcher.tally.time.monotonic", lambda: now_s)
    tally = Tally(Metrics())
    tally.ended(Status.DONE, RECENT_JOBS - 1)
    assert tally.recent_rate == tally.drain_rate == pytest.approx((RECENT_JOBS - 1) / 10)
    tally.ended(Status.DONE, 1)
    assert tally.recent_rate == pytest.approx(RECENT_JOBS / 2)
    assert tally.drain_rate == pytest.approx(RECENT_JOBS / 10)
    now_s = 102.5
    assert tally.recent_rate == tally.drain_rate == pytest.approx(RECENT_JOBS / 10)
    tally.ended(Status.FAILED, 2 * RECENT_JOBS)
    assert tally.recent_rate == pytest.approx(RECENT_JOBS)
    now_s = 120.0
    assert tally.recent_rate == 0.0


def test_the_length_of_a_job_is_that_of_all_so_far() -> None:
    """Tokens over jobs, twins included; never less than one, and one before any."""
    tally = Tally(Metrics())
    assert tally.tokens_per_job == 1.0
    tally.ran(batch(6, 4), 15.0)
    assert tally.tokens_per_job == pytest.approx(5.0)
    tally.ran(batch(2, twins=9), 15.0)
    assert tally.tokens_per_job == 1.0


def test_it_knows_how_far_into_each_queue_it_has_seen() -> None:
    """The youngest job that came out of it, whatever comes again."""
    tally = Tally(Metrics())
    tally.saw("q", 10)
    tally.saw("q", 5)
    tally.saw("other", 7)
    assert tally.seen_ms == {"q": 10, "other": 7}


def test_whatever_moves_raises_the_progress() -> None:
    """Batches and jobs that ended, and steps that were taken, do; jobs that come in are requests alone."""
    tally = Tally(Metrics())
    tally.admitted(1_250.0)
    tally.admitted(-3.0)
    assert (tally.requests, tally.lag_ms, tally.progress) == (2, 0.0, 0)
    tally.ran(batch(3), predicted_ms=1.0)
    tally.failed()
    tally.stepped()
    tally.ended(Status.DONE, 1)
    tally.ended(Status.DONE, 0)
    assert tally.progress == 4
