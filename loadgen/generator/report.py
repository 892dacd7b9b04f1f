"""What came of a run: counts, latencies as histograms, the batches that carried the jobs, and the run second by second.

Everything here is of the requests past the warm-up. Times are in milliseconds. Latency counts from when a request was
due, never from when it could be sent. The types travel as JSON, and reports keep them whole.
"""

import msgspec

from loadgen.generator.plan import Plan
from loadgen.latencies import Latencies


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in milliseconds, nan (null in JSON) for none; ``encoded`` is the whole HdrHistogram."""

    count: int
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None
    encoded: str


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    """The batches that carried the run's done jobs, as their records tell of them.

    ``sizes`` counts batches by size and ``reasons`` by why they were closed, each batch once. ``compute_ms`` is the
    engine's time for a job: that of its batch over the batch's jobs, on average over jobs.
    """

    count: int
    sizes: dict[int, int]
    reasons: dict[str, int]
    tokens: int
    padded_tokens: int
    compute_ms: float | None

    @property
    def mean(self) -> float | None:
        """Jobs a batch."""
        return sum(size * times for size, times in self.sizes.items()) / self.count if self.count else None

    @property
    def padding_share(self) -> float | None:
        """The share of tokens that were padding."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else None

    def full_share(self, most: int) -> float | None:
        """Return the share of batches that held ``most`` jobs."""
        return self.sizes.get(most, 0) / self.count if self.count else None


class Second(msgspec.Struct, frozen=True, kw_only=True):
    """A second of the run.

    ``due`` requests were due in it, ``accepted`` and ``ended`` in it, and ``in_system`` jobs were accepted and not
    ended at its end. The percentiles are of the jobs due in it, to their frame (or stored result).
    """

    at_s: int
    due: int
    accepted: int
    ended: int
    in_system: int
    p50_ms: float | None
    p99_ms: float | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    ``offered`` requests were due, ``accepted`` had their 202; ``statuses`` counts jobs by final status, ``errors`` what
    went wrong by kind: an HTTP status, `no_answer`, `not_ended`, `push_lost`. ``seconds`` is the length of the count,
    ``in_time`` how many jobs were done within the budget, ``cached`` how many were answered from a cache.

    ``submit`` is due to 202, ``stored`` created to finished by the record's stamps, ``pushed`` due to frame, ``lag``
    by how much sends were late. ``mean_in_system`` is the number of jobs accepted and not ended as the generator saw
    it, averaged over the count (None where no job is followed), which ``at_open`` and ``at_close`` of them
    overlapped. ``last_after_s`` is when the last job ended, counted from the last send. CPU is in seconds.
    ``invalid`` says why the times tell nothing of the server; empty for a good run.
    """

    plan: Plan
    began_at: str
    seconds: float
    offered: int
    accepted: int
    statuses: dict[str, int]
    errors: dict[str, int]
    in_time: int
    submit: Latency
    stored: Latency
    pushed: Latency
    lag: Latency
    batches: Batches
    timeline: list[Second]
    mean_in_system: float | None
    at_open: int
    at_close: int
    last_after_s: float
    cached: int
    own_cpu_s: float
    others_cpu_s: float
    cpu_s: dict[str, float]
    invalid: list[str]

    @property
    def done(self) -> int:
        """Jobs that ended as done."""
        return self.statuses.get("done", 0)

    @property
    def goodput(self) -> float:
        """The share of offered requests that were done within the budget (0 to 1); nan for none."""
        return self.in_time / self.offered if self.offered else float("nan")


def latency(kept: Latencies) -> Latency:
    """Return what a histogram holds."""
    if not kept.count:
        return Latency(
            count=0,
            mean_ms=None,
            p50_ms=None,
            p90_ms=None,
            p99_ms=None,
            p999_ms=None,
            max_ms=None,
            encoded=kept.encode(),
        )
    return Latency(
        count=kept.count,
        mean_ms=kept.mean_ms,
        p50_ms=kept.percentile_ms(0.5),
        p90_ms=kept.percentile_ms(0.9),
        p99_ms=kept.percentile_ms(0.99),
        p999_ms=kept.percentile_ms(0.999),
        max_ms=kept.max_ms,
        encoded=kept.encode(),
    )
