"""Figures that pages quote from reports: which figure a page means, and whether the two agree. Pure.

1. A page names the source after the number, in a comment that no reader sees: ``761 jobs a second <!-- batching.md:
   builtin, streams, throughput at saturation -->`` (on one line). The page may show fewer digits than the report.
2. A whole table stands between ``<!-- figures: FILE: KEY -->`` and ``<!-- /figures -->``; ``{row}`` and ``{column}`` in
   the key are a cell's (the column in lower case). A column called *goal* is the lines' goal. Each row has as many
   cells as the head: a page would show none of the others, and nobody would have compared them.
3. A unit right after the number is the report's, where that has one: 13 s are not 13 ms.

Numbers that are marked neither way are found by `loadgen.reports.unmarked`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final

from loadgen.reports.sources import NUMBER, Source, cells_of

Sources = Callable[[str], Source]
"""Gives the figures of a report by its file's name; `KeyError` where there is none."""

MARK: Final = re.compile(
    rf"(?<![\w.,])(?P<number>{NUMBER})(?P<unit>[^\d<>|\n]{{0,40}}?)<!-- (?P<file>[\w.-]+): (?P<key>.+?) -->"
)
_ANY_MARK: Final = re.compile(r"<!-- [\w.-]+\.(?:md|json): .+? -->")
OPEN: Final = re.compile(r"^<!-- figures: (?P<file>[\w.-]+): (?P<key>.+?) -->$")
CLOSE: Final = "<!-- /figures -->"
_NTH: Final = re.compile(r"^(?P<key>.+) \[(?P<nth>\d)\]$")
_UNIT: Final = re.compile(r" ?(?P<unit>ms|µs|us|ns|s|kB|MB|GB|KiB|MiB|GiB|%)(?![\w/])")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A figure of a page that does not agree, on a line (from 1); ``text`` says what was found and expected."""

    line: int
    text: str


def checked(page: str, sources: Sources) -> tuple[str, list[Fault]]:
    """Return a page with its figures as the reports have them, and what had to be changed or could not be found."""
    faults: list[Fault] = []
    lines, block = [], None
    head: list[str] = []
    for number, line in enumerate(page.splitlines(), 1):
        opened = OPEN.match(line)
        if opened is not None:
            block, head = opened, []
        elif line == CLOSE:
            block = None
        elif block is not None and line.startswith("|"):
            head, line = _table_line(line, head, block, sources, number, faults)
        else:
            line = _prose_line(line, sources, number, faults)
        lines.append(line)
    if block is not None:
        faults.append(Fault(line=len(lines), text=f"a table of figures has no {CLOSE} after it"))
    return "\n".join(lines) + ("\n" if page.endswith("\n") else ""), faults


def _prose_line(line: str, sources: Sources, number: int, faults: list[Fault]) -> str:
    def replaced(mark: re.Match[str]) -> str:
        expected = _expected(mark["file"], mark["key"], sources)
        if expected is None:
            faults.append(Fault(line=number, text=f"{mark['file']} has no figure {mark['key']!r}"))
            return mark[0]
        number_shown, unit = expected
        seen = _UNIT.match(mark["unit"])
        if seen is not None and unit and seen["unit"] != unit:
            faults.append(
                Fault(line=number, text=f"in {seen['unit']}, but {mark['file']}: {mark['key']} is in {unit}")
            )
        right = _as_shown(mark["number"], number_shown)
        if right != mark["number"]:
            faults.append(
                Fault(
                    line=number, text=f"{mark['number']}, but {mark['file']}: {mark['key']} is {number_shown}"
                )
            )
        return f"{right}{mark[0][len(mark['number']) :]}"

    ends = {mark.end() for mark in MARK.finditer(line)}
    faults += [
        Fault(line=number, text=f"there is no number right before {loose[0]}")
        for loose in _ANY_MARK.finditer(line)
        if loose.end() not in ends
    ]
    return MARK.sub(replaced, line)


def _table_line(
    line: str, head: list[str], block: re.Match[str], sources: Sources, number: int, faults: list[Fault]
) -> tuple[list[str], str]:
    """Return the table's head and the line as it should be."""
    row = cells_of(line)
    if not head:
        return row, line
    if set("".join(row)) <= set(":- "):
        return head, line
    if len(row) != len(head):
        faults.append(Fault(line=number, text=f"{len(row)} cells under a head of {len(head)}"))
        return head, line
    right, goal = [row[0]], ""
    for column, cell in zip(head[1:], row[1:], strict=True):
        if column == "goal":
            right.append(cell)
            continue
        key = block["key"].replace("{row}", row[0]).replace("{column}", column.lower())
        shown = _source(block["file"], sources).get(key)
        if shown is None:
            faults.append(Fault(line=number, text=f"{block['file']} has no figure {key!r}"))
        elif shown != cell:
            faults.append(Fault(line=number, text=f"{cell}, but {block['file']}: {key} is {shown}"))
        right.append(cell if shown is None else shown)
        goal = goal or _source(block["file"], sources).get(f"{key} (goal)", "")
    if "goal" in head:
        place = head.index("goal")
        if right[place] != goal:
            faults.append(Fault(line=number, text=f"goal {right[place]!r}, but {block['file']} has {goal!r}"))
        right[place] = goal
    return head, f"| {' | '.join(right)} |"


def _expected(file: str, key: str, sources: Sources) -> tuple[str, str] | None:
    """Return the number that a key means, and the unit right after it or at the end of its column; empty for none."""
    nth = _NTH.match(key)
    name = nth["key"] if nth else key
    shown = _source(file, sources).get(name, "")
    numbers = list(re.finditer(NUMBER, shown))
    place = int(nth["nth"]) - 1 if nth else 0
    if not 0 <= place < len(numbers):
        return None
    unit = _UNIT.match(shown, numbers[place].end()) or _UNIT.fullmatch(name.rpartition(",")[2])
    return numbers[place][0], unit["unit"] if unit is not None else ""


def _source(file: str, sources: Sources) -> Source:
    try:
        return sources(file)
    except KeyError:
        return {}


def _as_shown(shown: str, expected: str) -> str:
    """Return what is expected with as many places as are shown; what is shown where that is right already."""
    value = Decimal(expected.replace(",", ""))
    places = Decimal(1).scaleb(-len(shown.partition(".")[2]))
    halves = [value.quantize(places, rounding=way) for way in (ROUND_HALF_EVEN, ROUND_HALF_UP)]
    if Decimal(shown.replace(",", "")) in halves:
        return shown
    return f"{halves[0]:,}" if "," in shown or "," in expected else f"{halves[0]}"
