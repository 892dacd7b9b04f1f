"""Where the lines of results go: to standard output, or to a file.

A reader that is slow holds up nothing but the printing: writes that may block are done beside the loop, on the
descriptor itself, since a lock that such a write holds must not be asked for when the interpreter ends.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inferq.cli.terminal import Progress, on_terminal
from inferq.daemon import beside
from inferq.errors import OperatorError


class Printer:
    """Writes lines; made by `printer`."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        self._terminal = not name and on_terminal()

    async def lines(self, lines: Sequence[str], progress: Progress | None = None) -> None:
        """Write lines, above what ``progress`` shows on the same terminal.

        Raises:
            BrokenPipeError: nobody reads any more.
            OperatorError: the file takes no more.
        """
        if self._terminal and progress is not None:
            for line in lines:
                progress.line(line)
            return
        data = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
        try:
            await beside(lambda: self._write(data))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OperatorError(
                f"{self._name or 'standard output'} cannot be written ({error.strerror})"
            ) from None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]


@contextmanager
def printer(file: Path | None) -> Iterator[Printer]:
    """Make a printer to a file, whose content is replaced, else to standard output; raises OperatorError."""
    if file is None:
        if sys.stdout is None:
            raise OperatorError("standard output is closed: give --out FILE, or /dev/null")
        sys.stdout.flush()
        yield Printer(sys.stdout.fileno(), "")
        return
    try:
        stream = file.open("wb", buffering=0)
    except OSError as error:
        raise OperatorError(f"--out {file} cannot be written ({error.strerror})") from None
    with stream:
        yield Printer(stream.fileno(), f"--out {file}")
