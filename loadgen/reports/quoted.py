"""Figures that pages quote from reports: which figure a page means, and whether the two agree. Pure.

1. A page names the source after the number, in a comment that no reader sees: ``761 jobs a second <!-- batching.md:
   builtin, streams, throughput at saturation -->`` (on one line). The page may show fewer digits than the report.
2. A whole table stands between ``<!-- figures: FILE: KEY -->`` and ``<!-- /figures -->``; ``{row}`` and ``{column}`` in
   the key are a cell's (the column in lower case). A column called *goal* is the lines' goal.
3. A number with a unit that is marked neither way was measured by nobody who can be asked: it has to be marked, or
   listed with the reason why it is no measurement. What stands in code is a sample, and powers of two of KiB and more
   are sizes of buffers.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final

from loadgen.reports.sources import FENCE, NUMBER, Source, cells_of

Sources = Callable[[str], Source]
"""Gives the figures of a report by its file's name; `KeyError` where there is none."""

_MARK: Final = re.compile(
    rf"(?P<number>{NUMBER})(?P<unit>[^\d<>|\n]{{0,40}}?)<!-- (?P<file>[\w.-]+): (?P<key>.+?) -->"
)
_ANY_MARK: Final = re.compile(r"<!-- [\w.-]+\.(?:md|json): .+? -->")
_OPEN: Final = re.compile(r"^<!-- figures: (?P<file>[\w.-]+): (?P<key>.+?) -->$")
_CLOSE: Final = "<!-- /figures -->"
_NTH: Final = re.compile(r"^(?P<key>.+) \[(?P<nth>\d)\]$")
_UNSEEN: Final = re.compile(r"`[^`]*`|<!--.*?-->|\]\([^)]*\)")
_UNIT: Final = (
    r"(?:ms|µs|us|ns|kB|MB|GB|KiB|MiB|GiB|jobs/s|texts/s|/s)\b"
    r"|%|per cent\b|times\b|(?:[a-z]+ ){1,4}a second\b"
)
_MEASURED: Final = re.compile(rf"(?<![\w.,/-])(?P<number>\d[\d,]*(?:\.\d+)?) ?(?P<unit>{_UNIT})")
_SECONDS: Final = re.compile(r"(?<![\w.,/-])\d[\d,]*\.\d+ ?s\b")
_BINARY: Final = ("KiB", "MiB", "GiB")


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
        opened = _OPEN.match(line)
        if opened is not None:
            block, head = opened, []
        elif line == _CLOSE:
            block = None
        elif block is not None and line.startswith("|"):
            head, line = _table_line(line, head, block, sources, number, faults)
        elif block is None:
            line = _prose_line(line, sources, number, faults)
        lines.append(line)
    if block is not None:
        faults.append(Fault(line=len(lines), text=f"a table of figures has no {_CLOSE} after it"))
    return "\n".join(lines) + ("\n" if page.endswith("\n") else ""), faults


def unmarked(page: str) -> Iterator[Fault]:
    """Yield the numbers with units that name no report; the text is the line."""
    fenced = within = False
    for number, line in enumerate(page.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        within = (within or _OPEN.match(line) is not None) and line != _CLOSE
        if fenced or within:
            continue
        plain = _UNSEEN.sub(" ", _MARK.sub(" ", line))
        if _SECONDS.search(plain) or any(not _buffer(found) for found in _MEASURED.finditer(plain)):
            yield Fault(line=number, text=line)


def _buffer(found: re.Match[str]) -> bool:
    """Whether it is the size of a buffer: a power of two."""
    shown = found["number"].replace(",", "")
    return found["unit"] in _BINARY and shown.isdigit() and int(shown).bit_count() == 1


def _prose_line(line: str, sources: Sources, number: int, faults: list[Fault]) -> str:
    def replaced(mark: re.Match[str]) -> str:
        expected = _expected(mark["file"], mark["key"], sources)
        if expected is None:
            faults.append(Fault(line=number, text=f"{mark['file']} has no figure {mark['key']!r}"))
            return mark[0]
        right = _as_shown(mark["number"], expected)
        if right != mark["number"]:
            faults.append(
                Fault(line=number, text=f"{mark['number']}, but {mark['file']}: {mark['key']} is {expected}")
            )
        return f"{right}{mark[0][len(mark['number']) :]}"

    ends = {mark.end() for mark in _MARK.finditer(line)}
    faults += [
        Fault(line=number, text=f"there is no number right before {loose[0]}")
        for loose in _ANY_MARK.finditer(line)
        if loose.end() not in ends
    ]
    return _MARK.sub(replaced, line)


def _table_line(
    line: str, head: list[str], block: re.Match[str], sources: Sources, number: int, faults: list[Fault]
) -> tuple[list[str], str]:
    """Return the table's head and the line as it should be."""
    row = cells_of(line)
    if not head:
        return row, line
    if set("".join(row)) <= set(":- "):
        return head, line
    right, goal = [row[0]], ""
    for column, cell in zip(head[1:], row[1:], strict=False):
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


def _expected(file: str, key: str, sources: Sources) -> str | None:
    """Return the number that a key means."""
    nth = _NTH.match(key)
    shown = _source(file, sources).get(nth["key"] if nth else key)
    numbers = re.findall(NUMBER, shown or "")
    place = int(nth["nth"]) - 1 if nth else 0
    return numbers[place] if 0 <= place < len(numbers) else None


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
