"""A figure: what was measured, beside its goal, on one line. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """``value`` in ``unit``; ``goal`` says in words what ``holds`` decided, and is empty for a figure without one."""

    name: str
    value: float
    unit: str
    goal: str = ""
    holds: bool = True

    def line(self) -> str:
        """Return the line that benchmarks print."""
        shown = f"{self.name}: {self.value:.{_places(self.value)}f} {self.unit}"
        if not self.goal:
            return shown
        return f"{shown} (goal {self.goal}) {'holds' if self.holds else 'falls short'}"


def at_most(name: str, value: float, limit: float, unit: str) -> Figure:
    """Return a figure that holds up to and including ``limit``."""
    return Figure(name=name, value=value, unit=unit, goal=f"at most {limit:g} {unit}", holds=value <= limit)


def at_least(name: str, value: float, limit: float, unit: str) -> Figure:
    """Return a figure that holds from ``limit`` on."""
    return Figure(name=name, value=value, unit=unit, goal=f"at least {limit:g} {unit}", holds=value >= limit)


def equal(name: str, value: float, wanted: float, unit: str) -> Figure:
    """Return a figure that holds when it is exactly ``wanted``."""
    return Figure(name=name, value=value, unit=unit, goal=f"{wanted:g} {unit}", holds=value == wanted)


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the sorted values lie; nan for none (nearest rank)."""
    if not sorted_values:
        return float("nan")
    rank = max(1, -(-len(sorted_values) * share // 1))
    return sorted_values[min(len(sorted_values), int(rank)) - 1]


def _places(value: float) -> int:
    if float(value).is_integer() or abs(value) >= 100:
        return 0
    return 1 if abs(value) >= 10 else 2
