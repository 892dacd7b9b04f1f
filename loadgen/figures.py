"""A figure: what was measured, beside its goal, on one line. Pure."""

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


def equal(name: str, value: float, wanted: float, unit: str) -> Figure:
    """Return a figure that holds when it is exactly ``wanted``."""
    return Figure(name=name, value=value, unit=unit, goal=f"{wanted:g} {unit}", holds=value == wanted)


def median(values: list[float]) -> float:
    """Return the middle value, the mean of the middle two where there are two; nan for none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _places(value: float) -> int:
    if float(value).is_integer() or abs(value) >= 100:
        return 0
    return 1 if abs(value) >= 10 else 2
