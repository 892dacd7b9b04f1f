"""A level of a closed loop, made of what its clients saw. Pure.

What is counted is what ended within the count: with so many requests always in flight as many begin as end. Latency is
from when a request was sent to its result, since there is no time at which it was due. For Little's law L is of what
has its 202 and no result yet, as the clients saw it; the rate and W are of the records.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from loadgen import little
from loadgen.generator.jobrecord import DONE, BatchCount, Record
from loadgen.generator.summary import doubts
from loadgen.latencies import Latencies
from loadgen.sweeping.row import Law, Row, law_of


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One request: when it was sent, had its 202 (both in s), and its end; without a record it failed."""

    sent_s: float
    accepted_s: float
    ended_s: float
    record: Record | None


@dataclass(frozen=True, kw_only=True)
class Count:
    """When the count opened and closed (s), and the CPU that the clients took in it, in seconds."""

    opens_s: float
    closes_s: float
    own_cpu_s: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.closes_s - self.opens_s


def level(
    answers: Sequence[Answer], count: Count, *, in_flight: int, budget_ms: float, most_rows: int | None
) -> Row:
    """Return the level; ``most_rows`` is the largest batch, None where it is not known."""
    ended = [one for one in answers if count.opens_s <= one.ended_s < count.closes_s]
    done = [one for one in ended if one.record is not None and one.record.status == DONE]
    records = [one.record for one in done if one.record is not None]
    took_ms = [(one.ended_s - one.sent_s) * 1000 for one in done]
    kept, counted = Latencies(), BatchCount()
    for ms in took_ms:
        kept.record_ms(ms)
    for record in records:
        counted.add(record)
    batches = counted.batches()
    ms_at = {share: kept.percentile_ms(share) if done else None for share in (0.5, 0.9, 0.99, 0.999)}
    stored_ms = [record.stored_ms for record in records if not math.isnan(record.stored_ms)]
    return Row(
        level=in_flight,
        seconds=count.seconds,
        offered=len(ended) / count.seconds,
        achieved=len(done) / count.seconds,
        p50_ms=ms_at[0.5],
        p90_ms=ms_at[0.9],
        p99_ms=ms_at[0.99],
        p999_ms=ms_at[0.999],
        mean_ms=fmean(stored_ms) if stored_ms else None,
        mean_batch=batches.mean,
        full_share=None if most_rows is None else batches.full_share(most_rows),
        padding_share=batches.padding_share,
        goodput=sum(ms <= budget_ms for ms in took_ms) / len(ended) if ended else None,
        errors=len(ended) - len(done),
        cached=sum(record.cached for record in records),
        lag_p99_ms=None,
        invalid=doubts(None, count.own_cpu_s / count.seconds),
        law=_law(answers, done, stored_ms, count) if stored_ms else None,
    )


def _law(answers: Sequence[Answer], done: Sequence[Answer], stored_ms: Sequence[float], count: Count) -> Law:
    seen = little.of_intervals(
        ((one.accepted_s, one.ended_s) for one in answers if one.record is not None),
        count.opens_s,
        count.closes_s,
    )
    return law_of(
        little.Window(
            seconds=count.seconds,
            mean_in_system=seen.mean_in_system,
            rate=len(stored_ms) / count.seconds,
            mean_s=fmean(stored_ms) / 1000,
            at_open=seen.at_open,
            at_close=seen.at_close,
            longest_s=max(stored_ms) / 1000,
        ),
        followed_s=fmean(one.ended_s - one.accepted_s for one in done),
        submit_s=fmean(one.accepted_s - one.sent_s for one in done),
    )
