"""A report's page holds what was asked, what it ran on and what came of it; its JSON holds the values."""

import math
from pathlib import Path

import msgspec
import pytest

from inferq.errors import OperatorError
from loadgen.reports.document import Document, Lines, Picture, Section, Table, aligned, markdown
from loadgen.reports.files import write

DOCUMENT = Document(
    title="Two configurations",
    asked=("Which is faster?",),
    command="bash scripts/benchmark.sh 150 30 1:0 16:0",
    began_at="2026-01-31T12:00:00Z",
    environment={"cores": "2", "CPU": "one | of two"},
    sections=(
        Section(
            title="What came of it",
            parts=(
                "In words.",
                Table(head=("what", "p99, ms"), rows=(("1:0", "12.5"), ("a|b", "3"))),
                Lines(lines=("a: 1 ms", "b: 2 ms")),
                Picture(name="latency", svg="<svg/>", about="latency by percentile"),
            ),
        ),
    ),
    data={"runs": [{"p99_ms": 12.5, "none": math.nan}]},
)


def test_a_page_tells_all_that_a_stranger_needs() -> None:
    """Title, question, command, environment, tables with their cells escaped, pictures by relative links."""
    page = markdown(DOCUMENT, "2026-01-31-two")
    assert page.startswith(
        "# Two configurations\n\nWhich is faster?\n\n```\nbash scripts/benchmark.sh 150 30 1:0 16:0\n```"
    )
    assert "| began | 2026-01-31T12:00:00Z |\n| cores | 2 |\n| CPU | one \\| of two |" in page
    assert "| what | p99, ms |\n| --- | ---: |\n| 1:0 | 12.5 |\n| a\\|b | 3 |" in page
    assert "```\na: 1 ms\nb: 2 ms\n```" in page
    assert "![latency by percentile](2026-01-31-two-latency.svg)" in page
    assert page.endswith("[2026-01-31-two.json](2026-01-31-two.json).\n")


def test_a_table_on_a_terminal_has_its_figures_right_aligned() -> None:
    """The first column is of words."""
    assert aligned(Table(head=("what", "p99"), rows=(("1:0", "12.5"), ("16:50", "3")))) == [
        "what    p99",
        "1:0    12.5",
        "16:50     3",
    ]


def test_a_report_is_written_side_by_side_and_never_over_another(tmp_path: Path) -> None:
    """The page's links lead to files that are there; the second report of a day gets a number."""
    page = write(DOCUMENT, tmp_path / "new", "two")
    assert page.name == "2026-01-31-two.md"
    assert (page.parent / "2026-01-31-two-latency.svg").read_text() == "<svg/>"
    values = msgspec.json.decode((page.parent / "2026-01-31-two.json").read_bytes())
    assert values["command"] == DOCUMENT.command
    assert values["environment"]["cores"] == "2"
    assert values["runs"] == [{"p99_ms": 12.5, "none": None}]
    assert write(DOCUMENT, tmp_path / "new", "two").name == "2026-01-31-two-2.md"
    page.unlink()
    assert write(DOCUMENT, tmp_path / "new", "two").name == "2026-01-31-two-3.md"


def test_an_index_in_the_folder_gets_a_row_for_each_report(tmp_path: Path) -> None:
    """At the end of its table; what has no such table is left alone."""
    index = tmp_path / "README.md"
    index.write_text("| report | of | made by |\n|---|---|---|\n<!-- /reports -->\n")
    write(DOCUMENT, tmp_path, "two")
    write(DOCUMENT, tmp_path, "two")
    rows = index.read_text().splitlines()[2:]
    assert rows == [
        f"| [{stem}]({stem}.md) | Two configurations | `bash scripts/benchmark.sh 150 30 1:0 16:0` |"
        for stem in ("2026-01-31-two", "2026-01-31-two-2")
    ] + ["<!-- /reports -->"]
    index.write_text("nothing of it\n")
    write(DOCUMENT, tmp_path, "two")
    assert index.read_text() == "nothing of it\n"


def test_a_folder_that_cannot_be_written_to_is_told_of(tmp_path: Path) -> None:
    """One line names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match=r"the report cannot be written to .*file"):
        write(DOCUMENT, tmp_path / "file" / "folder", "two")
