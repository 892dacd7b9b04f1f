"""How commands speak: results on standard output, everything else on standard error, plain where nobody watches."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from inferq.cli.plain import printable
from inferq.errors import first_of

PLAIN_WIDTH: Final = 120
BAR_WIDTH: Final = 30


def on_terminal() -> bool:
    """Say whether standard output is a terminal; it may be closed altogether."""
    return sys.stdout is not None and sys.stdout.isatty()


def output() -> Console:
    """Make the console of standard output; without a terminal its tables are 120 wide."""
    return Console(highlight=False, markup=False, emoji=False, width=None if on_terminal() else PLAIN_WIDTH)


def notices() -> Console:
    """Make the console of standard error."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


class Progress:
    """A spinner with a text, on a terminal, and lines of output beside it; made by `progress`."""

    def __init__(self, spinner: Spinner, console: Console, *, watched: bool) -> None:
        self._spinner, self._console = spinner, console
        self.watched = watched

    def show(self, text: str) -> None:
        """Change the spinner's text."""
        self._spinner.update(text=Text(printable(text)))

    def line(self, text: str) -> None:
        """Write one line to standard output."""
        if on_terminal():
            self._console.print(Text(text), soft_wrap=True)
        else:
            typer.echo(text)


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Show a spinner while something takes time; ``quiet`` leaves it out, as for somebody who types."""
    # On the console of the results where that is a terminal, so that they and the spinner do not mix.
    console = output() if on_terminal() else notices()
    spinner = Spinner("dots", Text(printable(text)))
    if quiet or not console.is_terminal:
        yield Progress(spinner, console, watched=False)
        return
    with Live(spinner, console=console, transient=True, refresh_per_second=8, redirect_stdout=False):
        yield Progress(spinner, console, watched=True)


def bar(text: str, done: int, total: int) -> str:
    """Return a text with a bar of how much is done; without one where the total is not known."""
    if not total:
        return text
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    return f"{'━' * filled}{'─' * (BAR_WIDTH - filled)} {share:4.0%}  {text}"


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
        raise first_of(group) from group
