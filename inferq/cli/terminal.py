"""How commands speak: results on standard output, everything else on standard error, plain where nobody watches."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH: Final = 120


def output() -> Console:
    """Make the console of standard output; without a terminal its tables are 120 wide."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def notices() -> Console:
    """Make the console of standard error; without a terminal its lines are never wrapped."""
    return Console(
        stderr=True,
        highlight=False,
        markup=False,
        soft_wrap=not sys.stderr.isatty(),
        width=None if sys.stderr.isatty() else PLAIN_WIDTH,
    )


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on a terminal, and nothing elsewhere; yields a function that changes the text."""
    spinner = Spinner("dots", Text(printable(text)))
    with Live(
        spinner,
        console=notices(),
        transient=True,
        refresh_per_second=8,
        # Results that go to a file must not be led to the terminal along with the spinner.
        redirect_stdout=sys.stdout.isatty(),
    ):
        yield lambda text: spinner.update(text=Text(printable(text)))


def printable(text: str, most: int = 0) -> str:
    """Return text on one line without control characters, cut to ``most`` characters where that is not 0."""
    shown = "".join(char if char.isprintable() else " " for char in text).strip()
    return f"{shown[: most - 1]}…" if most and len(shown) > most else shown


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Make a table; the columns in ``right`` hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def row(made: Table, *cells: object) -> None:
    """Add a row of plain texts, which are never taken for markup."""
    made.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in cells))


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's work and return its exit code; the first error of a task group comes out by itself."""
    try:
        return asyncio.run(work)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
