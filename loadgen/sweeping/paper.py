"""The report of a sweep: its words, tables and picture put into a document. Pure."""

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from loadgen.reports.charts import Axis, Mark, Panel, Series, chart
from loadgen.reports.document import Document, Part, Picture, Section
from loadgen.sweeping.row import Row
from loadgen.sweeping.swept import Server, Swept, found
from loadgen.sweeping.words import conclusions, ideals, table

# Such a model has no file, and so no precision.
SIMULATED = "simulated:"
PERCENTILES = ("p50", "p90", "p99", "p99.9")
OVER = (
    "Measured over ideal. The ideal is the batcher's own policy on a virtual clock, with the cost that it fitted at its"
    " warm-up and the level's own arrivals and lengths, where nothing but the engine takes time; it is held against"
    " the time from acceptance to the stored result. The closed form gives bounds of the mean of the same time."
)


def document(swept: Swept, *, command: str, environment: Mapping[str, str]) -> Document:
    """Return the report."""
    loads: list[Part] = [table(swept), picture(swept)]
    beside = ideals(swept)
    sections = [
        Section(title="What it shows", parts=conclusions(swept)),
        Section(title="Level by level", parts=loads),
    ]
    if beside is not None:
        sections.append(Section(title="Beside the ideal", parts=[OVER, beside]))
    return Document(
        title=f"Sweep: {about(swept.server)}",
        asked=[_asked(swept)],
        command=command,
        began_at=swept.began_at,
        environment=environment,
        sections=sections,
        data={"sweep": msgspec.to_builtins(swept), "found": msgspec.to_builtins(found(swept))},
    )


def about(server: Server) -> str:
    """Return what was loaded, on one line."""
    if not server.model:
        return f"the pipeline at {server.url}"
    batchers = f", {server.batchers} batchers" if (server.batchers or 1) > 1 else ""
    precision = "" if server.model.startswith(SIMULATED) else f" ({server.precision})"
    return f"{server.model}{precision}, {server.config}, on {server.broker}{batchers}"


def picture(swept: Swept) -> Picture:
    """Return latency over throughput, with the knee marked, and throughput over load."""
    closed = swept.loop == "closed"
    knee = found(swept)
    curves = [
        Series(
            name=name,
            points=[(row.achieved, ms) for row in swept.rows if (ms := _percentile(row, name)) is not None],
            kind="line and dots",
        )
        for name in PERCENTILES
    ]
    loads = [(row.level if closed else row.offered, row.achieved) for row in swept.rows]
    marks: list[Mark] = []
    load_marks: list[Mark] = []
    here = None if knee.knee is None else _at(swept, knee.knee)
    if knee.knee is not None and here is not None:
        words = f"knee: {knee.knee:.4g}" + (" in flight" if closed else "/s")
        marks.append(Mark(x=here[0], y=here[1], words=words))
        load_marks.append(Mark(x=knee.knee, y=here[0], words=words))
    load = "requests in flight" if closed else "offered, jobs/s"
    panels = [
        Panel(
            title="Latency by throughput",
            x=Axis(label="done, jobs/s"),
            y=Axis(label="latency, ms", scale="log"),
            series=curves,
            marks=marks,
        ),
        Panel(
            title="Throughput by load",
            x=Axis(label=load),
            y=Axis(label="done, jobs/s"),
            series=[Series(name="done", points=loads, kind="line and dots")],
            marks=load_marks,
        ),
    ]
    whose = "closed loop" if closed else "open loop, latency from when a request was due to its pushed frame"
    return Picture(
        name="curve",
        svg=chart(f"Sweep: {about(swept.server)}", whose, panels),
        about="Latency percentiles over throughput, and throughput over load, with the knee marked",
    )


def _asked(swept: Swept) -> str:
    how = (
        "An open loop at each level: Poisson arrivals, all inputs unique, each sent when it is due, whatever came back"
        if swept.loop == "open"
        else "A CLOSED loop, all inputs unique: at each level so many clients, each with one request in flight"
    )
    laid = (
        f"; levels are laid around a capacity of about {swept.capacity:.4g} jobs/s that was found first"
        if swept.capacity is not None
        else ""
    )
    return (
        f"{how}; seed {swept.seed}{laid}. The queue is drained between levels, and each level's first part is a"
        " warm-up that is not counted. Goodput is the share of offered jobs whose result came within"
        f" {swept.budget_ms:g} ms."
    )


def _percentile(row: Row, name: str) -> float | None:
    return {"p50": row.p50_ms, "p90": row.p90_ms, "p99": row.p99_ms, "p99.9": row.p999_ms}[name]


def _at(swept: Swept, load: float) -> tuple[float, float] | None:
    """Return throughput and p99 at a load, in a straight line between the levels around it."""
    closed = swept.loop == "closed"
    points = sorted(
        (row.level if closed else row.offered, row.achieved, row.p99_ms)
        for row in swept.rows
        if row.p99_ms is not None
    )
    for (below, done, ms), (above, done_after, ms_after) in pairwise(points):
        # Chance may let two levels offer the same.
        if below <= load <= above and below < above:
            part = (load - below) / (above - below)
            return done + part * (done_after - done), ms + part * (ms_after - ms)
    return None
