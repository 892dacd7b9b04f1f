"""What a batcher counts: for its metrics, its heartbeat and its readiness."""

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from inferq.heartbeats import BatchTotals
from inferq.jobs import Status
from inferq.quantiles import Recent
from inferq.telemetry import Metrics

if TYPE_CHECKING:
    from batcher.settling import Batch

RATE_OVER_S: Final = 10.0
# Over so short a time once so many jobs have ended in it: a rate follows the load as soon as chance allows.
RECENT_S: Final = 2.0
RECENT_JOBS: Final = 50
_COUNTED: Final = (Status.RUNNING, Status.DONE, Status.FAILED, Status.EXPIRED)


class Tally:
    """Counts batches and ended jobs."""

    def __init__(self, metrics: Metrics) -> None:
        self.totals = BatchTotals()
        self.seen_ms: dict[str, int] = {}
        self.progress_s = time.monotonic()
        # Rises with whatever moves: its liveness is judged by it.
        self.progress = 0
        self.requests = 0
        self.lag_ms: float | None = None
        self._ended: deque[tuple[float, int]] = deque(maxlen=10_000)
        self._jobs = {status: metrics.jobs.labels(status) for status in _COUNTED}
        self._sizes = metrics.sizes("batch_size", "Rows of a batch")
        self._closes = metrics.counter("batch_close", "Batches by why they closed", "reason")
        self._tokens = metrics.counter(
            "batch_tokens", "Tokens computed, and those that were no padding", "kind"
        )
        self._useful, self._padded = self._tokens.labels("useful"), self._tokens.labels("padded")
        self._inference = metrics.seconds("inference", "How long the model took for a batch")
        self._predicted = metrics.seconds("predicted", "How long a batch was predicted to take")
        self._queue_wait = metrics.seconds("queue_wait", "From acceptance to a batcher's hands")
        self._age = metrics.seconds("window_age", "How long the oldest job of a batch had been in the window")
        self._splits = metrics.counter("batch_splits", "Batches that failed and were split")
        self._short = metrics.counter("batch_out_of_memory", "Batches that the device had no memory for")
        self._limit = metrics.gauge("batch_tokens_limit", "Padded tokens that a batch may have")
        self._restarts = metrics.counter("engine_restarts", "Engine processes that were replaced")
        self._lookups = metrics.counter("cache", "Lookups of results by outcome", "place", "outcome")
        self._kept = metrics.gauge("cache_results", "Results that the batcher's cache keeps")
        self._hits, self._hit_s = 0, 0.0
        self._direct = metrics.counter("direct", "Jobs past the queue that were answered")
        self._twins = metrics.counter("twins", "Jobs that were answered by the run of an equal input")
        self._recent_wait, self._recent_inference, self._recent_total = Recent(), Recent(), Recent()

    def saw(self, queue: str, created_ms: int) -> None:
        """A job came out of a queue."""
        self.seen_ms[queue] = max(created_ms, self.seen_ms.get(queue, 0))

    def gave_back(self, queue: str, created_ms: int) -> None:
        """A job went back into its queue, which is seen no further than to there."""
        self.seen_ms[queue] = min(created_ms, self.seen_ms.get(queue, created_ms))

    def admitted(self, lag_ms: float) -> None:
        """A job was taken in that is so old."""
        self.requests += 1
        self.lag_ms = max(0.0, lag_ms)

    def closed(self, age_s: float) -> None:
        """A batch closed; its oldest job had waited so long in the window."""
        self.totals.window_age_ms += age_s * 1000
        self._age.observe(age_s)

    def ran(self, batch: "Batch", predicted_ms: float) -> None:
        """A batch has its answer."""
        size, tokens, padded = len(batch.items), batch.tokens, batch.padded_tokens
        totals = self.totals
        totals.count += 1
        totals.jobs += size + len(batch.twins)
        totals.tokens += tokens
        totals.padded_tokens += padded
        totals.predicted_ms += predicted_ms
        totals.inference_ms += batch.answer.compute_ms
        totals.size_histogram[str(size)] = totals.size_histogram.get(str(size), 0) + 1
        totals.close_reasons[batch.reason] = totals.close_reasons.get(batch.reason, 0) + 1
        self._sizes.observe(size)
        self._closes.labels(batch.reason).inc()
        self._useful.inc(tokens)
        self._padded.inc(padded)
        self._inference.observe(batch.answer.compute_ms / 1000)
        self._predicted.observe(predicted_ms / 1000)
        self._twins.inc(len(batch.twins))
        now_s = self._moved()
        self._recent_inference.add(batch.answer.compute_ms, now_s)
        observe, remember = self._queue_wait.observe, self._recent_wait.add
        for item in (*batch.items, *batch.twins):
            if item.tell is not None:
                continue  # No queue had it.
            wait_ms = max(0.0, item.arrived_ms - item.origin.job.created_ms)
            observe(wait_ms / 1000)
            remember(wait_ms, now_s)

    def twin(self) -> None:
        """A job waits for the answer of an equal that runs already."""
        self._twins.inc()

    def looked_up(self, *, hit: bool, took_s: float) -> None:
        """A result was looked for in the cache, which took so long."""
        self._lookups.labels("local", "hit" if hit else "miss").inc()
        if hit:
            self._hits += 1
            self._hit_s += took_s

    @property
    def hit_us(self) -> float:
        """How long a lookup that found something took on average; 0 before any."""
        return self._hit_s / self._hits * 1e6 if self._hits else 0.0

    def keeps(self, results: int) -> None:
        """The cache keeps so many results now."""
        self._kept.set(results)

    def stepped(self) -> None:
        """Redis or the broker took a step of a job."""
        self.progress += 1

    def failed(self) -> None:
        """A batch ended without an answer."""
        self._moved()

    def split(self) -> None:
        """A batch failed and is split."""
        self.totals.splits += 1
        self._splits.inc()

    def short_of_memory(self) -> None:
        """The device had no memory for a batch."""
        self._short.inc()

    def may_have(self, most_tokens: int) -> None:
        """A batch may have so many padded tokens from now on."""
        self._limit.set(most_tokens)

    def restarted(self, restarts: int) -> None:
        """The engine was restarted so many times in all."""
        self._restarts.inc(restarts - self.totals.engine_restarts)
        self.totals.engine_restarts = restarts

    def started(self, jobs: int) -> None:
        """Jobs are running now."""
        self._jobs[Status.RUNNING].inc(jobs)

    def expired(self, jobs: int) -> None:
        """Jobs expired."""
        self.totals.expired += jobs
        self.ended(Status.EXPIRED, jobs)

    def ended(self, status: Status, jobs: int) -> None:
        """Jobs reached a final status."""
        if jobs:
            self._jobs[status].inc(jobs)
            self._ended.append((self._moved(), jobs))

    def told(self, jobs: int) -> None:
        """Jobs that came past the queue were answered."""
        if jobs:
            self._direct.inc(jobs)
            self._moved()

    def took(self, total_ms: float) -> None:
        """A job has its result, so long after it was accepted."""
        self._recent_total.add(total_ms, time.monotonic())

    @property
    def latency(self) -> dict[str, dict[int, int]]:
        """Times of the last ten seconds, as heartbeats carry them."""
        now_s = time.monotonic()
        return {
            "queue_wait": self._recent_wait.counts(now_s),
            "inference": self._recent_inference.counts(now_s),
            "total": self._recent_total.counts(now_s),
        }

    @property
    def drain_rate(self) -> float:
        """Jobs ended a second, over the last ten."""
        return self._ended_within(RATE_OVER_S) / RATE_OVER_S

    @property
    def recent_rate(self) -> float:
        """Jobs ended a second, over as short a time as says something."""
        recent_jobs = self._ended_within(RECENT_S)
        return recent_jobs / RECENT_S if recent_jobs >= RECENT_JOBS else self.drain_rate

    @property
    def tokens_per_job(self) -> float:
        """Tokens of a job, on average; 1 before any."""
        return max(1.0, self.totals.tokens / self.totals.jobs) if self.totals.jobs else 1.0

    def _moved(self) -> float:
        self.progress += 1
        self.progress_s = time.monotonic()
        return self.progress_s

    def _ended_within(self, seconds: float) -> int:
        now = time.monotonic()
        while self._ended and now - self._ended[0][0] > RATE_OVER_S:
            self._ended.popleft()
        return sum(jobs for at_s, jobs in self._ended if now - at_s <= seconds)
