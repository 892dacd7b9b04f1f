"""The picture of a bench: measured and predicted times over padded tokens, as SVG. Pure.

Both axes are logarithmic, since times span three orders of magnitude and errors count relative to them. There is no
background, and all colours are of middling brightness, so that it reads on light and dark pages alike.
"""

from collections.abc import Iterator
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

from batcher.benchreport import Fitted, Point, Report, formula

PANEL_WIDTH: Final = 560
HEIGHT: Final = 470
TOP, BOTTOM, LEFT, RIGHT = 116, 64, 64, 24
STEPS: Final = 32
INK: Final = "#777777"
COLOURS: Final = (
    "#3f86d8", "#1f9e8f", "#5a9e32", "#b58a12", "#d9702a", "#d64550", "#a65fc4", "#6f7fd6", "#8a8a8a", "#b07040",
)  # fmt: skip  # one a length, from short to long


def picture(report: Report) -> str:
    """Return the SVG of a report: a panel for the lanes, and one for the wide session if there is one."""
    grids = [report.lane.grid, report.wide.grid if report.wide is not None else []]
    points = [point for grid in grids for point in grid]
    x = _Axis([point.tokens for point in points], LEFT, PANEL_WIDTH - RIGHT)
    y = _Axis([ms for point in points for ms in (point.ms, point.predicted_ms)], HEIGHT - BOTTOM, TOP)
    panels = [_Panel("in a lane, all lanes busy" if report.lanes > 1 else "one at a time", report.lane, x, y)]
    if report.wide is not None:
        panels.append(_Panel("in the wide session, alone", report.wide, x, y))
    width = PANEL_WIDTH * len(panels)
    title = f"{report.model}: {report.precision} on {report.device}, layout {report.layout}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        _text(LEFT, 28, title, size=17, weight=600),
        _text(LEFT, 48, "What a batch takes, by its padded tokens: points measured, curves predicted"),
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * PANEL_WIDTH} 0)">')
        parts += panel.parts()
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Panel:
    """One way to run: axes, curves, points and legend."""

    def __init__(self, about: str, found: Fitted, x: "_Axis", y: "_Axis") -> None:
        self._about, self._found, self._x, self._y = about, found, x, y
        lengths = sorted({point.length for point in found.grid})
        self._colours = {length: COLOURS[number % len(COLOURS)] for number, length in enumerate(lengths)}

    def parts(self) -> Iterator[str]:
        """Yield the elements from back to front."""
        yield _text(LEFT, 78, f"{self._about}: mean error {self._found.mean_error:.1%}", size=13, weight=600)
        yield _text(LEFT, 96, formula(self._found))
        yield from self._axes()
        for length, colour in self._colours.items():
            yield self._curve(length, colour)
        for point in self._found.grid:
            yield self._dot(point)
        yield from self._legend()

    def _axes(self) -> Iterator[str]:
        bottom, right = HEIGHT - BOTTOM, PANEL_WIDTH - RIGHT
        for value in self._x.ticks():
            at = self._x.at(value)
            yield _line(at, TOP, at, bottom, opacity=0.2)
            yield _text(at, bottom + 18, _plain(value), anchor="middle")
        for value in self._y.ticks():
            at = self._y.at(value)
            yield _line(LEFT, at, right, at, opacity=0.2)
            yield _text(LEFT - 8, at + 4, _plain(value), anchor="end")
        yield _line(LEFT, bottom, right, bottom, opacity=0.8)
        yield _line(LEFT, TOP, LEFT, bottom, opacity=0.8)
        yield _text(
            (LEFT + right) / 2,
            bottom + 42,
            "padded tokens of the batch: texts times the longest",
            anchor="middle",
        )
        middle = (TOP + bottom) / 2
        yield f'<g transform="translate(18 {middle:.1f}) rotate(-90)">'
        yield _text(0, 0, "time of the batch, ms", anchor="middle") + "</g>"

    def _curve(self, length: int, colour: str) -> str:
        """Return the prediction for one length, from one text to as many as were measured of it."""
        most = max(point.rows for point in self._found.grid if point.length == length)
        cost = self._found.cost
        path = []
        for step in range(STEPS + 1):
            rows = most ** (step / STEPS)
            ms = (
                cost.tau0_ms
                + rows * cost.row_ms
                + rows * length * (cost.token_ms + length * cost.token_length_ms)
            )
            path.append(f"{self._x.at(rows * length):.1f},{self._y.at(ms):.1f}")
        return f'<polyline points="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8" opacity="0.8"/>'

    def _dot(self, point: Point) -> str:
        shape = f"{point.rows} x {point.length} tokens"
        about = f"{shape}: measured {point.ms:.3g} ms, predicted {point.predicted_ms:.3g} ms"
        return (
            f'<circle cx="{self._x.at(point.tokens):.1f}" cy="{self._y.at(point.ms):.1f}" r="4.2" '
            f'fill="{self._colours[point.length]}"><title>{about}</title></circle>'
        )

    def _legend(self) -> Iterator[str]:
        yield _text(LEFT + 16, TOP + 18, "tokens a text")
        for number, (length, colour) in enumerate(self._colours.items()):
            at = TOP + 36 + number * 17
            yield f'<circle cx="{LEFT + 22}" cy="{at - 4}" r="4.2" fill="{colour}"/>'
            yield _text(LEFT + 34, at, str(length))


class _Axis:
    """A logarithmic scale from values to positions, with room at both ends."""

    def __init__(self, values: list[float] | list[int], start: float, end: float) -> None:
        low, high = log10(min(values)), log10(max(values))
        room = max((high - low) * 0.06, 0.1)
        self._low, self._high = low - room, high + room
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Return the position of a value."""
        share = (log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return round values within the scale: 1, 2 and 5 of each decade, or only 1 where there are many."""
        steps = (1, 2, 5) if self._high - self._low < 3.4 else (1,)
        decades = range(floor(self._low), ceil(self._high))
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in found if self._low <= log10(value) <= self._high]


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _text(x: float, y: float, text: str, *, size: int = 12, weight: int = 400, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, *, opacity: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{INK}" opacity="{opacity}"/>'
    )
