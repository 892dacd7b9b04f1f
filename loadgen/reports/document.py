"""A report before it is written: a title, what was asked, and sections of words, tables and pictures. Pure.

1. A report names its command and what it ran on, or it tells nothing: both are demanded.
2. Markdown holds what a stranger reads, and embeds pictures by links to the files beside it. JSON holds all that was
   measured, so that other pictures can be drawn of it without running anything again.
3. A part of a section is a paragraph (Markdown), a table, a block of lines as a terminal shows them, or a picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

END_OF_REPORTS: Final = "<!-- /reports -->"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head, all as text; the first column is left-aligned, the others are figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines as a terminal shows them."""

    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An SVG; ``name`` is the end of its file's name, ``about`` says in words what it shows."""

    name: str
    svg: str
    about: str


Part = str | Table | Lines | Picture


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what is under it."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A report.

    ``asked`` says what was run and why, in paragraphs; ``began_at`` is an ISO date and time; ``environment`` is what it
    ran on, by name; ``data`` is all that was measured, as values that msgspec writes as JSON.
    """

    title: str
    asked: Sequence[str]
    command: str
    began_at: str
    environment: Mapping[str, str]
    sections: Sequence[Section]
    data: Mapping[str, Any] = field(default_factory=dict)

    def pictures(self) -> list[Picture]:
        """Return all pictures in the order they stand."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Picture)]


def markdown(document: Document, stem: str) -> str:
    """Return the page; its pictures and its JSON are the files that begin with ``stem``."""
    blocks = [
        f"# {document.title}",
        *document.asked,
        f"```\n{document.command}\n```",
        _environment(document),
    ]
    for section in document.sections:
        blocks.append(f"## {section.title}")
        blocks += [_written(part, stem) for part in section.parts]
    blocks.append(f"All that was measured, run by run: [{stem}.json]({stem}.json).")
    return "\n\n".join(blocks) + "\n"


def as_json(document: Document) -> bytes:
    """Return the report's values as JSON, indented; what is no number is null."""
    whole = {
        "title": document.title,
        "command": document.command,
        "began_at": document.began_at,
        "environment": dict(document.environment),
        **document.data,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def aligned(table: Table) -> list[str]:
    """Return a table for a terminal."""
    rows = [list(table.head), *(list(row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def picture_file(stem: str, picture: Picture) -> str:
    """Return the name of a picture's file."""
    return f"{stem}-{picture.name}.svg"


def indexed(index: str, document: Document, stem: str) -> str:
    """Return an index of reports with this one as the last row; as it is where it has no `END_OF_REPORTS`."""
    cells = (f"[{stem}]({stem}.md)", document.title, f"`{document.command}`")
    row = f"| {' | '.join(_cell(cell) for cell in cells)} |"
    return index.replace(END_OF_REPORTS, f"{row}\n{END_OF_REPORTS}", 1)


def _environment(document: Document) -> str:
    rows = [("began", document.began_at), *document.environment.items()]
    return _written(Table(head=("ran on", ""), rows=rows), "").replace("---:", "---")


def _written(part: Part, stem: str) -> str:
    match part:
        case str():
            return part
        case Table():
            rule = ["---", *["---:"] * (len(part.head) - 1)]
            rows = [part.head, rule, *part.rows]
            return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)
        case Lines():
            return "\n".join(["```", *part.lines, "```"])
        case _:
            return f"![{part.about}]({picture_file(stem, part)})"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")
