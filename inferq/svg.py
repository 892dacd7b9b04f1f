"""The pieces of a picture as SVG: texts, lines, and scales from values to positions. Pure.

A picture has no background, and all colours are of middling brightness, so that it reads on light and dark pages alike.
"""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import Final, Protocol
from xml.sax.saxutils import escape

INK: Final = "#7b7b7b"
COLOURS: Final = (
    "#3f86d8", "#1f9e8f", "#5a9e32", "#b58a12", "#d9702a", "#d64550", "#a65fc4", "#6f7fd6", "#8a8a8a", "#b07040",
)  # fmt: skip
# Of a share on a scale of percentiles: nine nines are as good as all.
_LEAST_REST: Final = 1e-9


class Scale(Protocol):
    """An axis: where a value lies, which values are marked, and what is written beside them."""

    def at(self, value: float) -> float:
        """Return the position of a value."""

    def ticks(self) -> list[float]:
        """Return the values to mark, ascending."""

    def label(self, value: float) -> str:
        """Return how a value is written."""


class Logarithmic:
    """A scale on which equal ratios are equally far; ``values`` are positive, and there is room at both ends."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = log10(min(values)), log10(max(values))
        room = max((high - low) * 0.06, 0.1)
        self._low, self._high = low - room, high + room
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Return the position of a positive value."""
        share = (log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return round values within the scale: 1, 2 and 5 of each decade, or only 1 where there are many."""
        steps = (1, 2, 5) if self._high - self._low < 3.4 else (1,)
        decades = range(floor(self._low), ceil(self._high))
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in found if self._low <= log10(value) <= self._high]

    def label(self, value: float) -> str:
        """Return a value with no more places than it needs."""
        return plain(value)


class Linear:
    """A scale from 0 to a little more than the largest of ``values``; at least to ``least``."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, least: float = 0.0) -> None:
        self._most = max([*values, least]) * 1.05 or 1.0
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Return the position of a value."""
        return self._start + value / self._most * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return about five round values from 0 on."""
        decade = 10.0 ** floor(log10(self._most))
        step = next(part * decade for part in (0.1, 0.2, 0.5, 1, 2) if self._most / (part * decade) <= 6.5)
        return [number * step for number in range(floor(self._most / step) + 1)]

    def label(self, value: float) -> str:
        """Return a value with no more places than it needs."""
        return plain(value)


class Percentiles:
    """A scale of shares (0 to below 1) on which each further nine takes the same room, up to ``most``."""

    def __init__(self, most: float, start: float, end: float) -> None:
        self._nines = -log10(max(1 - most, _LEAST_REST))
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Return the position of a share; beyond the scale's end, the end."""
        nines = min(-log10(max(1 - value, _LEAST_REST)), self._nines)
        return self._start + nines / self._nines * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return 0, the half, and so many nines as there are."""
        nines = [1 - 10.0**-number for number in range(1, floor(self._nines + 1e-6) + 1)]
        return [0.0, 0.5, *nines]

    def label(self, value: float) -> str:
        """Return a share in per cent."""
        return f"{value * 100:.7g}%"


def opened(width: float, height: float, title: str) -> list[str]:
    """Return what a picture begins with; it ends with `CLOSED`."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(title)}</title>",
    ]


CLOSED: Final = "</svg>"


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 12,
    weight: int = 400,
    anchor: str = "start",
    fill: str = "",
) -> str:
    """Return a line of text whose foot is at ``y``."""
    coloured = f' fill="{fill}"' if fill else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"{coloured}>'
        f"{escape(words)}</text>"
    )


def sideways(x: float, y: float, words: str) -> str:
    """Return a line of text that reads upwards, its middle at ``x`` and ``y``."""
    turned = text(0, 0, words, anchor="middle")
    return f'<g transform="translate({x:.1f} {y:.1f}) rotate(-90)">{turned}</g>'


def line(
    x1: float, y1: float, x2: float, y2: float, *, opacity: float, colour: str = INK, dashed: bool = False
) -> str:
    """Return a straight line."""
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" opacity="{opacity}"{dashes}/>'


def path(
    points: Iterable[tuple[float, float]], colour: str, *, opacity: float = 0.9, dashed: bool = False
) -> str:
    """Return a line through points."""
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    look = f'fill="none" stroke="{colour}" stroke-width="1.8" opacity="{opacity}"{dashes}'
    return f'<polyline points="{through}" {look}/>'


def dot(x: float, y: float, colour: str, about: str = "") -> str:
    """Return a point; ``about`` is shown when it is pointed at."""
    told = f"<title>{escape(about)}</title>" if about else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.2" fill="{colour}">{told}</circle>'


def bar(x: float, y: float, width: float, height: float, colour: str, about: str = "") -> str:
    """Return a filled rectangle; ``about`` is shown when it is pointed at."""
    told = f"<title>{escape(about)}</title>" if about else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" opacity="0.9">'
        f"{told}</rect>"
    )


def plain(value: float) -> str:
    """Return a number as an axis shows it."""
    return f"{value:,.0f}" if value >= 1 and float(value).is_integer() else f"{value:.6g}"
