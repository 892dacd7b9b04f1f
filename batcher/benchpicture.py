"""The picture of a bench: measured and predicted times over padded tokens, as SVG. Pure.

Both axes are logarithmic, since times span three orders of magnitude and errors count relative to them.
"""

from collections.abc import Iterator
from typing import Final

from batcher.benchreport import Fitted, Point, Report, formula
from inferq import svg
from inferq.plurals import counted

PANEL_WIDTH: Final = 560
HEIGHT: Final = 470
TOP, BOTTOM, LEFT, RIGHT = 116, 64, 64, 24
STEPS: Final = 32


def picture(report: Report) -> str:
    """Return the SVG of a report: a panel for the lanes, and one for the wide session if there is one."""
    grids = [report.lane.grid, report.wide.grid if report.wide is not None else []]
    points = [point for grid in grids for point in grid]
    x = svg.Logarithmic([point.tokens for point in points], LEFT, PANEL_WIDTH - RIGHT)
    y = svg.Logarithmic(
        [ms for point in points for ms in (point.ms, point.predicted_ms)], HEIGHT - BOTTOM, TOP
    )
    panels = [_Panel("in a lane, all lanes busy" if report.lanes > 1 else "one at a time", report.lane, x, y)]
    if report.wide is not None:
        panels.append(_Panel("in the wide session, alone", report.wide, x, y))
    width = PANEL_WIDTH * len(panels)
    title = f"{report.model}: {report.precision} on {report.device}, layout {report.layout}"
    parts = [
        *svg.opened(width, HEIGHT, title),
        svg.text(LEFT, 28, title, size=17, weight=600),
        svg.text(LEFT, 48, "What a batch takes, by its padded tokens: points measured, curves predicted"),
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * PANEL_WIDTH} 0)">')
        parts += panel.parts()
        parts.append("</g>")
    return "\n".join([*parts, svg.CLOSED]) + "\n"


class _Panel:
    """One way to run: axes, curves, points and legend."""

    def __init__(self, about: str, found: Fitted, x: svg.Logarithmic, y: svg.Logarithmic) -> None:
        self._about, self._found, self._x, self._y = about, found, x, y
        lengths = sorted({point.length for point in found.grid})
        self._colours = {
            length: svg.COLOURS[number % len(svg.COLOURS)] for number, length in enumerate(lengths)
        }

    def parts(self) -> Iterator[str]:
        """Yield the elements from back to front."""
        yield svg.text(
            LEFT, 78, f"{self._about}: mean error {self._found.mean_error:.1%}", size=13, weight=600
        )
        yield svg.text(LEFT, 96, formula(self._found))
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
            yield svg.line(at, TOP, at, bottom, opacity=0.2)
            yield svg.text(at, bottom + 18, svg.plain(value), anchor="middle")
        for value in self._y.ticks():
            at = self._y.at(value)
            yield svg.line(LEFT, at, right, at, opacity=0.2)
            yield svg.text(LEFT - 8, at + 4, svg.plain(value), anchor="end")
        yield svg.line(LEFT, bottom, right, bottom, opacity=0.8)
        yield svg.line(LEFT, TOP, LEFT, bottom, opacity=0.8)
        yield svg.text(
            (LEFT + right) / 2,
            bottom + 42,
            "padded tokens of the batch: texts times the longest",
            anchor="middle",
        )
        yield svg.sideways(18, (TOP + bottom) / 2, "time of the batch, ms")

    def _curve(self, length: int, colour: str) -> str:
        """Return the prediction for one length, from one text to as many as were measured of it."""
        most = max(point.rows for point in self._found.grid if point.length == length)
        cost = self._found.cost
        points = []
        for step in range(STEPS + 1):
            rows = most ** (step / STEPS)
            ms = (
                cost.tau0_ms
                + rows * cost.row_ms
                + rows * length * (cost.token_ms + length * cost.token_length_ms)
            )
            points.append((self._x.at(rows * length), self._y.at(ms)))
        return svg.path(points, colour)

    def _dot(self, point: Point) -> str:
        shape = f"{point.rows} x {counted(point.length, 'token')}"
        about = f"{shape}: measured {point.ms:.3g} ms, predicted {point.predicted_ms:.3g} ms"
        return svg.dot(self._x.at(point.tokens), self._y.at(point.ms), self._colours[point.length], about)

    def _legend(self) -> Iterator[str]:
        yield svg.text(LEFT + 16, TOP + 18, "tokens a text")
        for number, (length, colour) in enumerate(self._colours.items()):
            at = TOP + 36 + number * 17
            yield svg.dot(LEFT + 22, at - 4, colour)
            yield svg.text(LEFT + 34, at, str(length))
