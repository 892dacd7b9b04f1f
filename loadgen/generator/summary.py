"""From the notes of a run to its report. Pure.

1. The count opens with the end of the warm-up and closes with the end of the schedule; requests that were due in it are
   followed beyond it.
2. A job is in the system from its 202 to its end, as the generator saw them; one that ended before its 202 was here was
   never in it, one that did not end is in it for good. Jobs of the warm-up are in it too.
3. A late send tells of the generator, not of the server, and so does one that is short of CPU: beyond `MOST_LAG_MS` at
   the 99th percentile or `BUSY_SHARE` of a core a run is invalid.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.generator.ledger import Ledger
from loadgen.generator.plan import MOST_PATIENCE_S, Plan
from loadgen.generator.report import Latency, Report, Second, latency
from loadgen.latencies import Latencies
from loadgen.schedules import MOST_SECONDS

MOST_LAG_MS: Final = 1.0
BUSY_SHARE: Final = 0.8
Times = NDArray[np.float64]


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """CPU that was used while the run was counted, in seconds."""

    own_s: float
    others_s: float
    by_name: Mapping[str, float]


def report(plan: Plan, ledger: Ledger, *, began_at: str, used: Used) -> Report:
    """Return the report of a run that is over."""
    opens_s, closes_s = plan.warm_s, plan.schedule.seconds
    counted = slice(ledger.first, None)
    due, sent = _times(ledger.due_s)[counted], _times(ledger.sent_s)[counted]
    accepted_all, ended_all = _times(ledger.accepted_s), _times(ledger.ended_s)
    accepted, ended = accepted_all[counted], ended_all[counted]
    done = np.frombuffer(ledger.done, dtype=np.uint8)[counted].astype(bool)
    pushed_ms = (ended - due) * 1000
    lag = _latency((sent - due) * 1000)
    seconds = closes_s - opens_s
    return Report(
        plan=plan,
        began_at=began_at,
        seconds=seconds,
        offered=len(due),
        accepted=int(np.count_nonzero(~np.isnan(accepted))),
        statuses=dict(sorted(ledger.statuses.items())),
        errors=dict(sorted(ledger.errors.items())),
        in_time=int(np.count_nonzero(pushed_ms[done] <= plan.budget_ms)),
        submit=_latency((accepted - due) * 1000),
        stored=_latency(_times(ledger.stored_ms)[counted]),
        pushed=_latency(pushed_ms[done] if plan.follow == "push" else np.empty(0)),
        lag=lag,
        batches=ledger.batches.batches(),
        timeline=_timeline(due, accepted, ended, (accepted_all, ended_all), opens_s=opens_s),
        mean_in_system=None
        if plan.follow == "nothing"
        else _mean_in_system(accepted_all, ended_all, opens_s, closes_s),
        at_open=_in_system(accepted_all, ended_all, opens_s),
        at_close=_in_system(accepted_all, ended_all, closes_s),
        last_after_s=_last_after_s(sent, ended),
        cached=ledger.cached,
        own_cpu_s=used.own_s,
        others_cpu_s=used.others_s,
        cpu_s=dict(used.by_name),
        invalid=doubts(lag.p99_ms, used.own_s / seconds),
    )


def doubts(lag_p99_ms: float | None, own_share: float) -> list[str]:
    """Return why times tell nothing of the server; ``own_share`` is the generator's of a core (0 to 1)."""
    found = []
    if lag_p99_ms is not None and lag_p99_ms > MOST_LAG_MS:
        found.append(f"sends were late by {lag_p99_ms:.2f} ms at p99, {MOST_LAG_MS:g} ms is the most")
    if own_share > BUSY_SHARE:
        found.append(
            f"the generator used {100 * own_share:.0f} % of a core, {100 * BUSY_SHARE:.0f} % is the most"
        )
    return found


def _times(held: object) -> Times:
    return np.frombuffer(held, dtype=np.float64)  # type: ignore[call-overload, no-any-return]


def _latency(values_ms: Times) -> Latency:
    kept = Latencies()
    kept.record_all_ms(values_ms[~np.isnan(values_ms)])
    return latency(kept)


def _mean_in_system(accepted: Times, ended: Times, opens_s: float, closes_s: float) -> float:
    came, left = _stays(accepted, ended)
    inside = np.minimum(left, closes_s) - np.maximum(came, opens_s)
    return float(inside[inside > 0].sum()) / (closes_s - opens_s)


def _in_system(accepted: Times, ended: Times, at_s: float) -> int:
    came, left = _stays(accepted, ended)
    return int(np.count_nonzero((came <= at_s) & (left > at_s)))


def _stays(accepted: Times, ended: Times) -> tuple[Times, Times]:
    here = ~np.isnan(accepted)
    return accepted[here], np.where(np.isnan(ended[here]), math.inf, ended[here])


def _last_after_s(sent: Times, ended: Times) -> float:
    if np.isnan(ended).all():
        return 0.0
    return max(0.0, float(np.nanmax(ended) - np.nanmax(sent)))


def _timeline(
    due: Times, accepted: Times, ended: Times, everyone: tuple[Times, Times], *, opens_s: float
) -> list[Second]:
    """Return the seconds from the opening of the count to the last that happened."""
    if not len(due):
        return []
    latest = max(float(np.nanmax(one)) for one in (due, accepted, ended) if not np.isnan(one).all())
    # A stamp of a record may say anything.
    length = math.floor(min(latest - opens_s, MOST_SECONDS + MOST_PATIENCE_S)) + 1
    came, left = _stays(*everyone)
    came, left = np.sort(came), np.sort(np.maximum(left, came))
    counts = [_by_second(one - opens_s, length) for one in (due, accepted, ended)]
    edges = np.searchsorted(due, opens_s + np.arange(length + 1))
    ends = opens_s + np.arange(1, length + 1)
    inside = np.searchsorted(came, ends, side="right") - np.searchsorted(left, ends, side="right")
    found = []
    for at in range(length):
        took_ms = (ended[edges[at] : edges[at + 1]] - due[edges[at] : edges[at + 1]]) * 1000
        took_ms = np.sort(took_ms[~np.isnan(took_ms)])
        found.append(
            Second(
                at_s=at,
                due=int(counts[0][at]),
                accepted=int(counts[1][at]),
                ended=int(counts[2][at]),
                in_system=int(inside[at]),
                p50_ms=_nearest(took_ms, 0.5),
                p99_ms=_nearest(took_ms, 0.99),
            )
        )
    return found


def _by_second(times: Times, length: int) -> NDArray[np.int64]:
    places = np.clip(np.floor(times[~np.isnan(times)]), 0, length - 1).astype(np.int64)
    return np.bincount(places, minlength=length)


def _nearest(ordered: Times, share: float) -> float | None:
    if not len(ordered):
        return None
    return float(ordered[max(1, math.ceil(len(ordered) * share)) - 1])
