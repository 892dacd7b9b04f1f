"""Figures that pages quote: another number than the report's is found, and one without a report."""

import pytest

from loadgen.reports.quoted import checked, unmarked
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
    "line",
    [
        "it takes 12 ms",
        "1.5 s later",
        "4.32 KiB a socket",
        "3 MB",
        "96 MiB",
        "2.5 times as fast",
        "12 % less",
        "761 such jobs a second",
        "12 µs",
        "it does 150 jobs/s",
    ],
)
def test_a_number_with_a_unit_that_names_no_report_is_found(line: str) -> None:
    """Whatever the unit."""
    assert [fault.line for fault in unmarked(f"first\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "it takes 12 ms <!-- batching.md: half --> in all",
        "a body of 64 KiB, 8 MiB at most",
        "within 10 s",
        "`sleep 12 ms`",
        "[report](docs/12ms.md)",
        "version 3.10",
        "```\nit takes 12 ms\n```",
        TABLE,
    ],
)
def test_marks_buffers_code_and_settings_are_left_alone(line: str) -> None:
    """Whole seconds are limits here, and powers of two are sizes of buffers."""
    assert not list(unmarked(line))
