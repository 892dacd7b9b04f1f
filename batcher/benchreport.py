"""What `inferq model bench` found, as values and as lines of text. Pure."""

from collections.abc import Sequence

import msgspec

from batcher.cost import Cost, CostModel, Sample, fit, relative_error


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of the grid, the median of what it took, and what the fit predicts for it."""

    rows: int
    length: int
    ms: float
    predicted_ms: float

    @property
    def tokens(self) -> int:
        """Return the padded tokens."""
        return self.rows * self.length

    @property
    def error(self) -> float:
        """Return how far off the prediction is, relative to what was measured; negative when too short."""
        return self.predicted_ms / self.ms - 1


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one way to run, fitted to its grid; ``mean_error`` is relative, and so is ``margin``."""

    tau0_ms: float
    row_ms: float
    token_ms: float
    token_length_ms: float
    mean_error: float
    margin: float
    grid: list[Point]

    @property
    def cost(self) -> Cost:
        """Return the fit as what it predicts with."""
        return Cost(
            tau0_ms=self.tau0_ms,
            row_ms=self.row_ms,
            token_ms=self.token_ms,
            token_length_ms=self.token_length_ms,
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A bench of one model; ``wide`` is None without a wide session, ``texts_per_s`` empty where nothing was chosen."""

    model: str
    folder: str | None
    digest: str
    device: str
    fallback_reason: str | None
    precision: str
    file: str | None
    note: str | None
    threads: int
    layout: str
    lanes: int
    load_ms: float
    texts_per_s: dict[str, float]
    lane: Fitted
    wide: Fitted | None


def fitted(samples: Sequence[Sample]) -> Fitted:
    """Return the fit to a grid, with what it predicts for each of its shapes; useless samples are left out."""
    usable = [sample for sample in samples if sample.usable]
    cost = fit(usable)
    return Fitted(
        tau0_ms=cost.tau0_ms,
        row_ms=cost.row_ms,
        token_ms=cost.token_ms,
        token_length_ms=cost.token_length_ms,
        mean_error=relative_error(cost, usable),
        margin=CostModel(usable).margin,
        grid=[
            Point(
                rows=sample.rows,
                length=sample.length,
                ms=sample.ms,
                predicted_ms=cost.batch_ms(sample.rows, sample.length),
            )
            for sample in sorted(usable, key=lambda one: (one.length, one.rows))
        ],
    )


def lines(report: Report) -> list[str]:
    """Return the report for a terminal."""
    device = report.device + (f" ({report.fallback_reason})" if report.fallback_reason else "")
    precision = report.precision + (f" from {report.file}" if report.file else "")
    shown = [
        f"model       {report.model}" + (f" at {report.folder}" if report.folder else ""),
        f"device      {device}, {_count(report.threads, 'thread')}",
        f"precision   {precision}",
        *([f"note        {report.note}"] if report.note else []),
        f"loaded in   {report.load_ms / 1000:.2f} s",
        f"layout      {report.layout}",
    ]
    shown += [
        f"{'':<12}{layout:<8} {rate:8.1f} texts/s"
        for layout, rate in sorted(report.texts_per_s.items(), key=lambda pair: -pair[1])
    ]
    shown += _grid("lane", report.lane)
    if report.wide is not None:
        shown += _grid("wide", report.wide)
    return shown


def formula(found: Fitted) -> str:
    """Return the fit as the sum of its terms; attention looks at each pair of tokens of a text."""
    terms = (
        (found.tau0_ms, "a batch"),
        (found.row_ms, "a text"),
        (found.token_ms, "a token"),
        (found.token_length_ms, "a token pair"),
    )
    return " + ".join(f"{duration(ms)} {what}" for ms, what in terms if ms > 0)


def duration(ms: float) -> str:
    """Return milliseconds with three digits, in ms, µs or ns."""
    if ms >= 0.1:
        return f"{ms:.3g} ms"
    return f"{ms * 1e3:.3g} µs" if ms >= 1e-4 else f"{ms * 1e6:.3g} ns"


def _grid(name: str, found: Fitted) -> list[str]:
    head = f"{'texts':>5} {'tokens':>6} {'measured ms':>12} {'predicted ms':>13} {'error':>7}"
    shown = [
        "",
        f"{name:<12}{formula(found)}",
        f"{'':<12}mean error {found.mean_error:.1%}; nine of ten take at most {found.margin:.0%} more than predicted",
        f"{'':<12}{head}",
    ]
    for point in found.grid:
        # + 0.0, since a rounded -0.00001 would show as -0.0 %
        error = round(point.error, 4) + 0.0
        times = f"{point.ms:>12.3f} {point.predicted_ms:>13.3f} {error:>+7.1%}"
        shown.append(f"{'':<12}{point.rows:>5} {point.length:>6} {times}")
    return shown


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
