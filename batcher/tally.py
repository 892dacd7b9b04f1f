"""What a batcher counts: for its metrics, its heartbeat and its readiness."""

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from inferq.heartbeats import BatchTotals
from inferq.jobs import Status
from inferq.telemetry import Metrics

if TYPE_CHECKING:
    from batcher.settling import Batch

RATE_OVER_S: Final = 10.0


class Tally:
    """Counts batches and ended jobs."""

    def __init__(self, metrics: Metrics) -> None:
        self.totals = BatchTotals()
        self.seen_ms: dict[str, int] = {}
        self.progress_s = time.monotonic()
        self._ended: deque[tuple[float, int]] = deque(maxlen=10_000)
        self._jobs = metrics.jobs
        self._sizes = metrics.sizes("batch_size", "Jobs in a batch")
        self._closes = metrics.counter("batch_close", "Batches by why they closed", "reason")
        self._tokens = metrics.counter(
            "batch_tokens", "Tokens computed, and those that were no padding", "kind"
        )
        self._inference = metrics.seconds("inference", "How long the model took for a batch")
        self._queue_wait = metrics.seconds("queue_wait", "From acceptance to a batcher's hands")
        self._splits = metrics.counter("batch_splits", "Batches that failed and were split")

    def saw(self, queue: str, created_ms: int) -> None:
        """A job came out of a queue."""
        self.seen_ms[queue] = max(created_ms, self.seen_ms.get(queue, 0))

    def ran(self, batch: "Batch") -> None:
        """A batch has its answer."""
        size, tokens, padded = len(batch.items), batch.tokens, batch.padded_tokens
        totals = self.totals
        totals.count += 1
        totals.jobs += size
        totals.tokens += tokens
        totals.padded_tokens += padded
        totals.size_histogram[str(size)] = totals.size_histogram.get(str(size), 0) + 1
        totals.close_reasons[batch.reason] = totals.close_reasons.get(batch.reason, 0) + 1
        self._sizes.observe(size)
        self._closes.labels(batch.reason).inc()
        self._tokens.labels("useful").inc(tokens)
        self._tokens.labels("padded").inc(padded)
        self._inference.observe(batch.answer.compute_ms / 1000)
        for item in batch.items:
            self._queue_wait.observe(max(0.0, item.arrived_ms - item.origin.job.created_ms) / 1000)
        self.progress_s = time.monotonic()

    def split(self) -> None:
        """A batch failed and is split."""
        self._splits.inc()

    def started(self, jobs: int) -> None:
        """Jobs are running now."""
        self._jobs.labels("running").inc(jobs)

    def ended(self, status: Status, jobs: int) -> None:
        """Jobs reached a final status."""
        if jobs:
            self._jobs.labels(status).inc(jobs)
            self._ended.append((time.monotonic(), jobs))
            self.progress_s = time.monotonic()

    @property
    def drain_rate(self) -> float:
        """Jobs ended a second, over the last ten."""
        now = time.monotonic()
        while self._ended and now - self._ended[0][0] > RATE_OVER_S:
            self._ended.popleft()
        return sum(jobs for _, jobs in self._ended) / RATE_OVER_S
