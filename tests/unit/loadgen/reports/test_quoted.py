"""Figures that pages quote: another number than the report's is found, and one without a report."""

import pytest

from loadgen.reports.quoted import checked
from loadgen.reports.sources import Source

REPORTS = {
    "steady.md": {
        "steady streams, p99": "13.3 ms",
        "steady streams, p99 (goal)": "at most 20 ms",
        "steady rabbitmq, p99": "15.0 ms",
        "steady rabbitmq, p99 (goal)": "",
    },
    "batching.md": {
        "throughput": "761 jobs/s",
        "many": "12,345 jobs/s",
        "half": "2.5 ms",
        "pair": "2.75 and 3.11",
        "slo | p99, ms": "10.4 (9.9 to 11.0)",
    },
}


def sources(file: str) -> Source:
    """Return the figures of a report that is there."""
    return REPORTS[file]


def faults(page: str) -> list[str]:
    """Return what is wrong with a page."""
    return [fault.text for fault in checked(page, sources)[1]]


@pytest.mark.parametrize(
    "line",
    [
        "761 such jobs a second <!-- batching.md: throughput --> on Streams",
        "about 12,345 <!-- batching.md: many --> a second, 761 <!-- batching.md: throughput -->",
        "12.3 thousand, and 12345 <!-- batching.md: many -->",
        "3.1 times <!-- batching.md: pair [2] -->",
        "3 ms <!-- batching.md: half -->",
        "2 ms <!-- batching.md: half -->",
        "11 ms <!-- batching.md: slo | p99, ms [3] --> at most",
    ],
)
def test_a_number_that_agrees_is_left_as_it_is(line: str) -> None:
    """With fewer digits, either way of rounding a half, and the number that is meant of several."""
    assert checked(f"{line}\n", sources) == (f"{line}\n", [])


@pytest.mark.parametrize(
    ("shown", "right"),
    [
        ("762 jobs/s <!-- batching.md: throughput -->", "761 jobs/s <!-- batching.md: throughput -->"),
        ("3.2 times <!-- batching.md: pair [2] -->", "3.1 times <!-- batching.md: pair [2] -->"),
        ("12,000 <!-- batching.md: many -->", "12,345 <!-- batching.md: many -->"),
    ],
)
def test_another_number_is_found_and_set_right(shown: str, right: str) -> None:
    """With as many digits as were shown; the fault says the line, what was found and what is expected."""
    page, found = checked(f"first\n{shown}", sources)
    assert page == f"first\n{right}"
    (fault,) = found
    assert fault.line == 2
    assert fault.text.startswith(f"{shown.split()[0]}, but batching.md: ")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2.5 s <!-- batching.md: half -->", "in s, but batching.md: half is in ms"),
        ("10 s <!-- batching.md: slo | p99, ms -->", "in s, but batching.md: slo | p99, ms is in ms"),
        (
            "the p99 <!-- batching.md: throughput -->",
            "there is no number right before <!-- batching.md: throughput -->",
        ),
        ("7 ms <!-- batching.md: nothing -->", "batching.md has no figure 'nothing'"),
        ("7 ms <!-- gone.md: throughput -->", "gone.md has no figure 'throughput'"),
        ("7 ms <!-- batching.md: throughput [2] -->", "batching.md has no figure 'throughput [2]'"),
        (
            "much <!-- batching.md: throughput -->",
            "there is no number right before <!-- batching.md: throughput -->",
        ),
    ],
)
def test_a_mark_that_leads_nowhere_is_a_fault(line: str, fault: str) -> None:
    """The line stays as it is."""
    assert checked(line, sources)[0] == line
    assert faults(line) == [fault]


TABLE = """<!-- figures: steady.md: steady {column}, {row} -->
| what | goal | Streams | RabbitMQ |
|---|---|---|---|
| p99 | at most 20 ms | 13.3 ms | 15.0 ms |
<!-- /figures -->
"""


def test_a_table_agrees_cell_by_cell() -> None:
    """Rows and columns make the keys, and the goal is the lines' own."""
    assert checked(TABLE, sources) == (TABLE, [])


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("13.3 ms", "13.4 ms", "13.4 ms, but steady.md: steady streams, p99 is 13.3 ms"),
        ("15.0 ms", "15.0 us", "15.0 us, but steady.md: steady rabbitmq, p99 is 15.0 ms"),
        ("at most 20 ms", "at most 30 ms", "goal 'at most 30 ms', but steady.md has 'at most 20 ms'"),
    ],
)
def test_another_cell_is_found_and_set_right(right: str, wrong: str, fault: str) -> None:
    """Number, unit or goal."""
    page, found = checked(TABLE.replace(right, wrong), sources)
    assert page == TABLE
    assert [one.text for one in found] == [fault]


def test_a_row_that_the_report_does_not_have_is_a_fault_and_stays() -> None:
    """Without a goal column too; so is a table that never ends."""
    table = (
        TABLE.replace("goal | ", "")
        .replace("at most 20 ms | ", "")
        .replace("| p99", "| p98")
        .replace("<!-- /", "")
    )
    page, found = checked(table, sources)
    assert page == table
    assert [one.text for one in found] == [
        "steady.md has no figure 'steady streams, p98'",
        "steady.md has no figure 'steady rabbitmq, p98'",
        "a table of figures has no <!-- /figures --> after it",
    ]


@pytest.mark.parametrize(
    "row", ["| p99 | at most 20 ms | 13.3 ms | 15.0 ms | 3 ms |", "| p99 | at most 20 ms |"]
)
def test_a_row_with_more_or_fewer_cells_than_the_head_is_a_fault(row: str) -> None:
    """A page would not show the others, and nobody would have compared them."""
    table = TABLE.replace("| p99 | at most 20 ms | 13.3 ms | 15.0 ms |", row)
    page, found = checked(table, sources)
    assert page == table
    assert [one.text.partition(" cells")[2] for one in found] == [" under a head of 4"]


def test_a_mark_within_a_table_of_figures_is_compared_as_well() -> None:
    """Where it stands beside the rows."""
    table = TABLE.replace("<!-- /", "762 <!-- batching.md: throughput -->\n<!-- /")
    assert [fault.line for fault in checked(table, sources)[1]] == [5]
