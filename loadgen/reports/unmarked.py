"""Figures of a page that name no report. Pure.

1. A number with a unit that is marked neither way (`loadgen.reports.quoted`) was measured by nobody who can be asked:
   it has to be marked, or listed with the reason why it is no measurement. The unit may stand on the next line, and in
   a table it may stand in the column's head.
2. Where a mark follows a range (12 to 13 ms), it is of the second number, so the first one has none.
3. What stands in code is a sample, whole seconds are limits, and powers of two of KiB and more are sizes of buffers.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from loadgen.reports.quoted import CLOSE, MARK, OPEN, Fault
from loadgen.reports.sources import FENCE, cells_of

_UNSEEN: Final = re.compile(r"`[^`]*`|<!--.*?-->|\]\([^)]*\)")
_NUMBER: Final = r"(?<![\w.,/-])(?P<number>\d[\d,]*(?:\.\d+)?)"
_UNIT: Final = (
    r"(?:ms|µs|us|ns|kB|MB|GB|KiB|MiB|GiB|(?:[a-z]+)?/s)\b"
    r"|%|per cent\b|times\b|(?:[a-z]+ ){0,4}(?:a|per|each) second\b|(?<=\d)[x\u00d7](?!\w)"
)
_MEASURED: Final = re.compile(rf"{_NUMBER} ?(?P<unit>{_UNIT})")
_SECONDS: Final = re.compile(r"(?<![\w.,/-])\d[\d,]*\.\d+ ?s\b")
_BINARY: Final = ("KiB", "MiB", "GiB")
# What a mark and its number become: no text has it.
_MARKED: Final = "\0"
_RANGE: Final = re.compile(rf"{_NUMBER}(?: ?(?:{_UNIT}))?(?: (?:to|and|or) | ?[\u2013-] ?){_MARKED}")
_HEAD_UNIT: Final = re.compile(r"(?:^|[ ,(])(?:ms|µs|us|ns|s|kB|MB|GB|KiB|MiB|GiB|[a-z]+/s|%|per cent)\)?$")
_CELL: Final = re.compile(r"[<>~≈]? ?\d[\d,]*(?:\.\d+)?(?: \([^)]*\))?")


def unmarked(page: str) -> Iterator[Fault]:
    """Yield the numbers with units that name no report; the text is the line."""
    fenced = within = False
    head: list[str] = []
    lines = page.splitlines()
    for number, (line, after) in enumerate(pairwise([*lines, ""]), 1):
        if FENCE.match(line):
            fenced = not fenced
        within = (within or OPEN.match(line) is not None) and line != CLOSE
        row = line.startswith("|")
        if fenced or (within and row):
            continue
        head = (head or cells_of(line)) if row else []
        plain = _plain(line)
        if _measured(plain, "" if row else _plain(after)) or (row and _headed(head, plain)):
            yield Fault(line=number, text=line)


def _plain(line: str) -> str:
    return _UNSEEN.sub(" ", MARK.sub(_MARKED, line)).strip()


def _measured(plain: str, after: str) -> bool:
    """Whether a line has such a number; its unit may begin the line ``after``."""
    both = f"{plain} {after}"
    return (
        any(found.start() < len(plain) and not _buffer(found) for found in _MEASURED.finditer(both))
        or _SECONDS.search(plain) is not None
        or _RANGE.search(plain) is not None
    )


def _headed(head: list[str], plain: str) -> bool:
    """Whether a row has a number in a column whose head has a unit."""
    cells = zip(head, cells_of(plain), strict=False)
    return any(_HEAD_UNIT.search(of) and _CELL.fullmatch(cell) for of, cell in cells)


def _buffer(found: re.Match[str]) -> bool:
    """Whether it is the size of a buffer: a power of two."""
    shown = found["number"].replace(",", "")
    return found["unit"] in _BINARY and shown.isdigit() and int(shown).bit_count() == 1
