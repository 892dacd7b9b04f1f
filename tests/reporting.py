"""Reports of runs, made for tests: of a constant load on a server with given latencies."""

from collections.abc import Sequence

from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Batches, Report, Second, latency
from loadgen.ideal import Course
from loadgen.latencies import Latencies
from loadgen.reports.measured import Run


def report(
    took_ms: Sequence[float],
    *,
    seconds: float = 10.0,
    left: int = 0,
    errors: dict[str, int] | None = None,
    invalid: Sequence[str] = (),
    sizes: dict[int, int] | None = None,
    accepted: int | None = None,
    compute_ms: float | None = 5.0,
    others_cpu_s: float = 0.1,
) -> Report:
    """Return a report of jobs that took so long each; ``left`` of them were under way when the load ended."""
    kept = Latencies()
    for value in took_ms:
        kept.record_ms(value)
    shown, none = latency(kept), latency(Latencies())
    offered = len(took_ms) + sum((errors or {}).values())
    took_202 = offered if accepted is None else accepted
    timeline = [
        Second(at_s=at, due=0, accepted=0, ended=0, in_system=left, p50_ms=shown.p50_ms, p99_ms=shown.p99_ms)
        for at in range(int(seconds) + 1)
    ]
    timeline[0] = Second(
        at_s=0, due=offered, accepted=took_202, ended=0, in_system=0, p50_ms=None, p99_ms=None
    )
    return Report(
        plan=Plan(schedule=Schedule(rate=offered / seconds, seconds=seconds)),
        began_at="2026-01-31T12:00:00Z",
        seconds=seconds,
        offered=offered,
        accepted=took_202,
        statuses={"done": len(took_ms)},
        errors=errors or {},
        in_time=sum(value <= 200 for value in took_ms),
        submit=none,
        stored=shown,
        pushed=shown,
        lag=none,
        batches=Batches(
            count=sum((sizes or {}).values()),
            sizes=sizes or {},
            reasons={},
            tokens=80 if sizes else 0,
            padded_tokens=100 if sizes else 0,
            compute_ms=compute_ms,
        ),
        timeline=timeline,
        mean_in_system=1.0,
        at_open=0,
        at_close=left,
        last_after_s=0.1,
        cached=0,
        own_cpu_s=0.1,
        others_cpu_s=others_cpu_s,
        cpu_s={},
        invalid=list(invalid),
    )


def run(
    arm: str,
    found: Report,
    *,
    load: str = "10",
    number: int = 0,
    best: Course | None = None,
    tries: Sequence[list[str]] = (),
) -> Run:
    """Return a run of batches of at most four."""
    return Run(load=load, arm=arm, number=number, full=4, report=found, best=best, tries=list(tries))
