"""Charts of a report as SVG: panels of lines, points and bars with axes and one legend. Pure.

What has the same name has the same colour in all panels, so the legend stands once, above them. A value that an axis
cannot show (none, or 0 on a logarithmic one) is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

from inferq import svg

Kind = Literal["line", "dots", "line and dots", "bars"]
ScaleName = Literal["linear", "log", "percentiles"]

LEFT, RIGHT, ABOVE, BELOW = 70, 26, 34, 62
# Of the picture's head: the title, what it is about, then the legend's rows.
_HEAD, _LEGEND_ROW = 58, 20
# A letter of the legend's size is about so wide.
_LETTER: Final = 6.8
_SWATCH: Final = 26
# In an order in which neighbours are told apart.
COLOURS: Final = tuple(svg.COLOURS[number] for number in (0, 4, 2, 6, 1, 5, 3, 7, 9, 8))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What an axis shows, with its unit; a linear one reaches at least ``least``."""

    label: str
    scale: ScaleName = "linear"
    least: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points (x, y) of one name; bars stand side by side where several series have them."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: Kind = "line"
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point that is pointed out, with a few words, such as a knee."""

    x: float
    y: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes and what is drawn on them."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    marks: Sequence[Mark] = ()


def chart(
    title: str, about: str, panels: Sequence[Panel], *, columns: int = 2, width: int = 560, height: int = 380
) -> str:
    """Return the picture: panels of ``width`` by ``height`` (pixels), ``columns`` side by side."""
    columns = min(columns, len(panels))
    across = max(columns * width, 560)
    names = list(dict.fromkeys(one.name for panel in panels for one in panel.series))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    dashed = {one.name for panel in panels for one in panel.series if one.dashed}
    legend = list(_legend(names, across))
    top = _HEAD + (max(row for _, row, _ in legend) + 1) * _LEGEND_ROW + 8
    parts = svg.opened(across, top + -(-len(panels) // columns) * height, title)
    parts.append(svg.text(24, 28, title, size=17, weight=600))
    parts.append(svg.text(24, 48, about))
    for x, row, name in legend:
        y = _HEAD + row * _LEGEND_ROW + 14
        parts.append(
            svg.line(x, y - 4, x + 18, y - 4, opacity=1, colour=colours[name], dashed=name in dashed)
        )
        if name not in dashed:
            parts.append(svg.dot(x + 9, y - 4, colours[name]))
        parts.append(svg.text(x + _SWATCH, y, name))
    for number, panel in enumerate(panels):
        at = f"{number % columns * width} {top + number // columns * height}"
        parts.append(f'<g transform="translate({at})">')
        parts += _Drawn(panel, colours, width, height).parts()
        parts.append("</g>")
    return "\n".join([*parts, svg.CLOSED]) + "\n"


def _legend(names: Sequence[str], across: float) -> Iterator[tuple[float, int, str]]:
    """Yield where each name stands: its left edge and its row."""
    x, row = 24.0, 0
    for name in names:
        wide = _SWATCH + len(name) * _LETTER + 22
        if x + wide > across and x > 24:
            x, row = 24.0, row + 1
        yield x, row, name
        x += wide


class _Drawn:
    """A panel on its place."""

    def __init__(self, panel: Panel, colours: dict[str, str], width: int, height: int) -> None:
        self._panel, self._colours = panel, colours
        self._right, self._bottom = width - RIGHT, height - BELOW
        self._shown = {
            one.name: [point for point in one.points if _fits(point[0], panel.x) and _fits(point[1], panel.y)]
            for one in panel.series
        }
        marks = [(mark.x, mark.y) for mark in panel.marks]
        points = [point for shown in self._shown.values() for point in shown] + marks
        self._x = _scale(panel.x, [x for x, _ in points], LEFT, self._right)
        self._y = _scale(panel.y, [y for _, y in points], self._bottom, ABOVE)

    def parts(self) -> Iterator[str]:
        """Yield the elements from back to front."""
        yield svg.text(LEFT, 18, self._panel.title, size=13, weight=600)
        yield from self._axes()
        bars = [one for one in self._panel.series if one.kind == "bars"]
        for number, one in enumerate(bars):
            yield from self._bars(one, number, len(bars))
        for one in self._panel.series:
            points = [(self._x.at(x), self._y.at(y)) for x, y in self._shown[one.name]]
            if one.kind.startswith("line"):
                yield svg.path(points, self._colours[one.name], dashed=one.dashed)
            if one.kind.endswith("dots"):
                for (x, y), (value_x, value_y) in zip(points, self._shown[one.name], strict=True):
                    about = f"{one.name}: {svg.plain(value_x)}, {value_y:.4g}"
                    yield svg.dot(x, y, self._colours[one.name], about)
        for mark in self._panel.marks:
            yield from self._mark(mark)

    def _axes(self) -> Iterator[str]:
        for value in self._x.ticks():
            at = self._x.at(value)
            yield svg.line(at, ABOVE, at, self._bottom, opacity=0.2)
            yield svg.text(at, self._bottom + 18, self._x.label(value), anchor="middle")
        for value in self._y.ticks():
            at = self._y.at(value)
            yield svg.line(LEFT, at, self._right, at, opacity=0.2)
            yield svg.text(LEFT - 8, at + 4, self._y.label(value), anchor="end")
        yield svg.line(LEFT, self._bottom, self._right, self._bottom, opacity=0.8)
        yield svg.line(LEFT, ABOVE, LEFT, self._bottom, opacity=0.8)
        yield svg.text((LEFT + self._right) / 2, self._bottom + 42, self._panel.x.label, anchor="middle")
        yield svg.sideways(18, (ABOVE + self._bottom) / 2, self._panel.y.label)

    def _bars(self, one: Series, number: int, side_by_side: int) -> Iterator[str]:
        """Yield a bar a point; a place on the axis is 1 wide."""
        place = (self._x.at(1) - self._x.at(0)) * 0.8
        wide = place / side_by_side
        for x, y in self._shown[one.name]:
            left = self._x.at(x) - place / 2 + number * wide
            top = self._y.at(y)
            about = f"{one.name}: {svg.plain(x)}, {y:.3g}"
            yield svg.bar(left, top, wide, self._bottom - top, self._colours[one.name], about)

    def _mark(self, mark: Mark) -> Iterator[str]:
        x, y = self._x.at(mark.x), self._y.at(mark.y)
        yield svg.line(x, ABOVE, x, self._bottom, opacity=0.8, dashed=True)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="none" stroke="{svg.INK}" stroke-width="2"/>'
        beyond = x > (LEFT + self._right) / 2
        yield svg.text(
            x - 12 if beyond else x + 12, ABOVE + 14, mark.words, anchor="end" if beyond else "start"
        )


def _fits(value: float, axis: Axis) -> bool:
    return isfinite(value) and (axis.scale != "log" or value > 0)


def _scale(axis: Axis, values: list[float], start: float, end: float) -> svg.Scale:
    if axis.scale == "log":
        return svg.Logarithmic(values or [1.0], start, end)
    if axis.scale == "percentiles":
        return svg.Percentiles(max([*values, 0.9]), start, end)
    return svg.Linear(values, start, end, least=axis.least)
