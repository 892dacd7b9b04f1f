"""What a cache is worth: its runs, the medians over rounds, and what is said of them. Pure.

1. Hits are counted twice: by the records (`cached`), and by the servers in `/v1/stats`. The ideal is what is expected
   of a cache that holds every text from its first time on, over just as many inputs. A text that comes again while its
   equal waits or runs is answered with it and is no hit, so hits are below the ideal where equal texts come close
   together.
2. With the cache off every text is run, equal ones that wait at the same time included: a cache has all of that to
   save.
3. Throughput is at a load that is more than each arm can do; latency at one that all can do.
"""

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from loadgen.figures import Figure, at_least
from loadgen.reports.document import Document, Section, Table

OFF = "off"
NEAR_IDEAL = 0.9
HEAD = (
    "cache",
    "hits, records",
    "hits, stats",
    "ideal",
    "p50 ms",
    "p99 ms",
    "saturated/s",
    "over off",
    "hits there",
    "mean batch",
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One arm in one round.

    At the equal load of ``rate`` jobs/s: ``jobs`` sent, the share of them that the records call cached and that the
    servers counted as hits, and the latency of the pushed frame. ``saturated`` is jobs/s at more than it can do, of
    which ``saturated_hits`` (0 to 1) were hits, in batches of ``mean_batch``.
    """

    cache: str
    round: int
    rate: float
    jobs: int
    hits: float
    counted_hits: float
    ideal: float
    p50_ms: float | None
    p99_ms: float | None
    saturated: float
    saturated_hits: float
    mean_batch: float | None
    invalid: Sequence[str] = ()


class CacheTest(msgspec.Struct, frozen=True, kw_only=True):
    """One cache test: ``distinct`` texts by Zipf's law with ``exponent``."""

    about: str
    began_at: str
    distinct: int
    exponent: float
    rounds: int
    seed: int
    runs: Sequence[Run]

    @property
    def caches(self) -> list[str]:
        """The arms, in the order of their first run, `off` first."""
        names = dict.fromkeys(run.cache for run in self.runs)
        return sorted(names, key=lambda name: name != OFF)

    def median(self, cache: str, value: Callable[[Run], float | None]) -> float:
        """Return the median of an arm over the rounds; nan where it was never seen."""
        found = [seen for run in self.runs if run.cache == cache and (seen := value(run)) is not None]
        return median(found) if found else float("nan")

    def over_off(self, cache: str) -> float:
        """Return the median, over the rounds, of an arm's saturated throughput over `off`'s of the same round."""
        off = {run.round: run.saturated for run in self.runs if run.cache == OFF}
        found = [
            run.saturated / off[run.round] for run in self.runs if run.cache == cache and off.get(run.round)
        ]
        return median(found) if found else float("nan")


def table(test: CacheTest) -> Table:
    """Return the medians, an arm a row."""
    return Table(head=HEAD, rows=[_cells(test, cache) for cache in test.caches])


def conclusions(test: CacheTest) -> list[str]:
    """Return what the runs come to in words."""
    said = []
    for cache in test.caches:
        if cache == OFF:
            continue
        hits, ideal = test.median(cache, lambda run: run.hits), test.median(cache, lambda run: run.ideal)
        p50_ms = test.median(cache, lambda run: run.p50_ms)
        off_ms = test.median(OFF, lambda run: run.p50_ms)
        said.append(
            f"With the cache {cache}, {100 * hits:.1f} % of the jobs were hits; of a cache that forgets nothing"
            f" {100 * ideal:.1f} % are expected. At the equal load p50 was {p50_ms:.1f} ms, {off_ms:.1f} ms without. At"
            f" saturation it did {test.over_off(cache):.2f} times what was done without, of the same inputs."
        )
    invalid = sum(bool(run.invalid) for run in test.runs)
    if invalid:
        said.append(
            f"In {invalid} of {len(test.runs)} runs the generator itself was late or short of CPU at the equal load:"
            " their latencies tell little of the server."
        )
    return said


def asked(test: CacheTest) -> list[str]:
    """Return what was run."""
    return [
        f"{test.about}. {test.distinct:,} distinct texts come again by Zipf's law with exponent {test.exponent:g};"
        f" seed {test.seed}, rounds: {test.rounds}, the arms in turn, each on a fresh pipeline with an empty cache;"
        " figures are medians over the rounds.",
        "Two open loops of Poisson arrivals for each arm: one at an equal load that all arms can do, for hits and"
        " latency (from when a job was due to its pushed frame), and one at more than the arm can do, for throughput,"
        " with texts that it has not seen before. With the cache off every text is run; with either cache equal texts"
        " that wait at the same time run once.",
    ]


def figures(test: CacheTest, *, goals: bool = True) -> list[Figure]:
    """Return a line a figure; without ``goals`` they are only said."""
    found = []
    for cache in test.caches:
        name = f"cache {cache}"
        found.append(
            Figure(
                name=f"{name}, throughput at saturation",
                value=test.median(cache, lambda run: run.saturated),
                unit="jobs/s",
            )
        )
        if cache == OFF:
            continue
        hits, ideal = test.median(cache, lambda run: run.hits), test.median(cache, lambda run: run.ideal)
        over = f"{name}, hit rate over ideal"
        found += [
            Figure(name=f"{name}, throughput over off", value=test.over_off(cache), unit="times"),
            Figure(name=f"{name}, hit rate", value=100 * hits, unit="%"),
            at_least(over, hits / ideal, NEAR_IDEAL, "times")
            if goals
            else Figure(name=over, value=hits / ideal, unit="times"),
        ]
    return found


def document(test: CacheTest, *, command: str, environment: dict[str, str]) -> Document:
    """Return the report."""
    return Document(
        title=f"Cache: {test.about}",
        asked=asked(test),
        command=command,
        began_at=test.began_at,
        environment=environment,
        sections=[
            Section(title="What it shows", parts=conclusions(test)),
            Section(title="With and without", parts=[table(test)]),
        ],
        data={"cache": msgspec.to_builtins(test)},
    )


def line(run: Run) -> str:
    """Return a run on one line, as it is said when it is over."""
    words = (
        f"cache {run.cache}: {100 * run.hits:.1f} % hits of {run.jobs} jobs (ideal {100 * run.ideal:.1f} %),"
        f" p50 {_places(run.p50_ms)} ms at {run.rate:.1f}/s, {run.saturated:.1f}/s at saturation"
    )
    return f"{words}; invalid: {'; '.join(run.invalid)}" if run.invalid else words


def _cells(test: CacheTest, cache: str) -> Sequence[str]:
    def percent(value: Callable[[Run], float]) -> str:
        return f"{100 * test.median(cache, value):.1f}%"

    return (
        cache,
        percent(lambda run: run.hits),
        percent(lambda run: run.counted_hits),
        "-" if cache == OFF else percent(lambda run: run.ideal),
        _places(test.median(cache, lambda run: run.p50_ms)),
        _places(test.median(cache, lambda run: run.p99_ms)),
        _places(test.median(cache, lambda run: run.saturated)),
        f"{test.over_off(cache):.2f}",
        percent(lambda run: run.saturated_hits),
        _places(test.median(cache, lambda run: run.mean_batch)),
    )


def _places(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.1f}"
