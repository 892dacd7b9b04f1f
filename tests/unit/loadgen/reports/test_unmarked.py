"""Figures of a page that name no report are found; what is no figure is left alone."""

import pytest

from loadgen.reports.unmarked import unmarked

TABLE = """<!-- figures: steady.md: steady {column}, {row} -->
| what | Streams |
|---|---|
| p99 | 13.3 ms |
<!-- /figures -->"""


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
        "761 per second",
        "12 replies/s",
        "2.5x as fast",
        "2.5\u00d7 as fast",
        "12 to 13.3 ms <!-- batching.md: half -->",
        "12 ms or 13 ms <!-- batching.md: half -->",
        "12-13 ms <!-- batching.md: half -->",
        "it does 761\njobs a second",
        "it takes 12\nms",
        "| what | p99, ms |\n| 1:0 | 12.5 |",
    ],
)
def test_a_number_with_a_unit_that_names_no_report_is_found(line: str) -> None:
    """Whatever the unit."""
    assert [fault.line for fault in unmarked(f"first\n{line}\n")] == [3 if line.startswith("|") else 2]


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
        "4 \u00d7 `SIZE`, 2 x 1",
    ],
)
def test_marks_buffers_code_and_settings_are_left_alone(line: str) -> None:
    """Whole seconds are limits here, and powers of two are sizes of buffers."""
    assert not list(unmarked(line))


def test_a_row_that_hides_within_a_table_of_figures_is_found() -> None:
    """Markdown takes a row without its first bar; no cell of it would have been compared."""
    page = TABLE.replace("<!-- /figures -->", "p50 | 3 ms |\n<!-- /figures -->")
    assert [fault.line for fault in unmarked(page)] == [5]
