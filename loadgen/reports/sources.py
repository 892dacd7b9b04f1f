"""The figures that a report holds, by key. Pure.

A report holds figures as lines (``name: 12.5 ms (goal …) holds``) in blocks of code, as cells of tables, and as values
of its JSON. A line's key is its name, and that of its goal the name and `` (goal)``; a cell's is ``row | column``, with
``section: `` before it where several sections have the same; a value's is the names that lead to it, as
``medians / 150 / 1:0 / p99 / median``.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

Source = Mapping[str, str]
"""Figures as they are shown, by key."""

NUMBER: Final = r"-?\d[\d,]*(?:\.\d+)?"
FENCE: Final = re.compile(r"^\s*```")
_LINE: Final = re.compile(
    rf"^(?P<name>[^|]+?): (?P<shown>{NUMBER} [^()\n]+?)(?: \(goal (?P<goal>.+)\) (?:holds|falls short))?$"
)


def figures_of(page: str) -> dict[str, str]:
    """Return the figures of a report in Markdown, as they are shown there; a cell without its asterisks."""
    reading = _Reading()
    for line in page.splitlines():
        reading.read(line)
    return {key: shown for key, shown in reading.found.items() if key not in reading.doubtful}


def values_of(tree: Any, path: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the numbers of a report's JSON."""
    if isinstance(tree, dict):
        parts = [values_of(value, (*path, str(name))) for name, value in tree.items()]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(tree, int | float) and not isinstance(tree, bool):
        return {" / ".join(path): repr(tree)}
    return {}


def cells_of(line: str) -> list[str]:
    """Return the cells of a table's row."""
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]


class _Reading:
    """A page read line by line; ``doubtful`` are keys without a section that mean several figures."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.doubtful: set[str] = set()
        self._section = ""
        self._head: list[str] = []
        self._fenced = False

    def read(self, line: str) -> None:
        """Take the next line."""
        if FENCE.match(line):
            self._fenced = not self._fenced
        elif self._fenced:
            self._line(line)
        elif line.startswith("|"):
            self._row(cells_of(line))
        else:
            self._head = []
            if line.startswith("#"):
                self._section = line.lstrip("# ")

    def _line(self, line: str) -> None:
        figure = _LINE.match(line)
        if figure is not None:
            self.found[figure["name"]] = figure["shown"]
            self.found[f"{figure['name']} (goal)"] = figure["goal"] or ""

    def _row(self, row: list[str]) -> None:
        if not self._head:
            self._head = row
            return
        for column, cell in zip(self._head[1:], row[1:], strict=False):
            key = f"{row[0]} | {column}"
            if self.found.get(key, cell) != cell:
                self.doubtful.add(key)
            self.found[key] = self.found[f"{self._section}: {key}"] = cell
