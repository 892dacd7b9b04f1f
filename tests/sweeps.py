"""Rows and reports of sweeps, made by hand."""

from typing import Any

import msgspec

from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Batches, Latency, Report, Second, latency
from loadgen.latencies import Latencies
from loadgen.sweeping.row import Law, Row
from loadgen.sweeping.swept import Server, Swept

HOLDS = Law(in_system=10.0, expected=10.1, allowed=0.4, why="0.2 for the ends", holds=True)
BROKEN = Law(in_system=20.0, expected=10.0, allowed=0.4, why="0.2 for the ends", holds=False)


def row(level: float, **given: Any) -> Row:
    """Return a level that keeps up, with what is given in its place."""
    wanted: dict[str, Any] = {
        "level": level,
        "seconds": 10.0,
        "offered": level,
        "achieved": level,
        "p50_ms": 20.0,
        "p90_ms": 30.0,
        "p99_ms": 40.0,
        "p999_ms": 50.0,
        "mean_ms": 22.0,
        "mean_batch": 3.0,
        "full_share": 0.1,
        "padding_share": 0.25,
        "goodput": 1.0,
        "errors": 0,
        "cached": 0,
        "lag_p99_ms": 0.3,
        "invalid": (),
        "law": HOLDS,
    }
    return Row(**(wanted | given))


def swept(*rows: Row, **given: Any) -> Swept:
    """Return an open loop's sweep of these levels, whole."""
    wanted: dict[str, Any] = {
        "loop": "open",
        "server": Server(
            broker="streams",
            model="simulated:20,1",
            precision="fp32",
            config="16:0",
            batchers=1,
            most_rows=16,
            lanes=1,
        ),
        "seed": 7,
        "began_at": "2026-01-31T12:00:00+00:00",
        "rows": rows,
        "planned": len(rows),
    }
    return Swept(**(wanted | given))


def latencies(*values_ms: float) -> Latency:
    """Return what a histogram of these holds."""
    kept = Latencies()
    for ms in values_ms:
        kept.record_ms(ms)
    return latency(kept)


def report(**given: Any) -> Report:
    """Return a run of 10 s in which 100 jobs came and were done, each 100 ms after it came."""
    times = latencies(*[100.0] * 100)
    accepted = given.get("accepted", 100)
    wanted: dict[str, Any] = {
        "plan": Plan(schedule=Schedule(kind="poisson", rate=10.0, seconds=12.0), warm_s=2.0),
        "began_at": "2026-01-31T12:00:00Z",
        "seconds": 10.0,
        "offered": 100,
        "accepted": 100,
        "statuses": {"done": 100},
        "errors": {},
        "in_time": 90,
        "submit": latencies(*[2.0] * 100),
        "stored": times,
        "pushed": latencies(*[104.0] * 100),
        "lag": latencies(*[0.2] * 100),
        "batches": Batches(
            count=50,
            sizes={1: 25, 3: 25},
            reasons={"greedy": 40, "full": 10},
            tokens=900,
            padded_tokens=1200,
            compute_ms=5.0,
        ),
        "timeline": [
            Second(at_s=0, due=100, accepted=accepted, ended=0, in_system=0, p50_ms=None, p99_ms=None)
        ],
        "mean_in_system": 1.02,
        "at_open": 1,
        "at_close": 1,
        "last_after_s": 0.1,
        "cached": 0,
        "own_cpu_s": 0.1,
        "others_cpu_s": 0.1,
        "cpu_s": {},
        "invalid": [],
    }
    return msgspec.structs.replace(Report(**wanted), **given)
