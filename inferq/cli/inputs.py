"""Lines of files and of standard input, whatever that is: a terminal, a pipe, a file.

They are read in chunks, no faster than they are taken, so that a file of any length needs little memory.
"""

import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.cli.asked import LONGEST_LINE_BYTES
from inferq.daemon import beside, each_beside
from inferq.errors import OperatorError

STDIN: Final = "-"
_CHUNK_BYTES: Final = 65_536
# Counting reads a file once more, which must take no noticeable time.
_MOST_COUNTED_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text that was given as such, or where lines are read: a descriptor with the name it goes by."""

    text: str = ""
    descriptor: int | None = None
    name: str = ""

    @property
    def typed(self) -> bool:
        """Whether a person types it."""
        return self.descriptor is not None and os.isatty(self.descriptor)


def sources(texts: Sequence[str], files: Sequence[str]) -> list[Source]:
    """Return where texts come from: the arguments first, `-` among them for standard input, then files in order.

    Raises:
        OperatorError: a file cannot be opened, or standard input is closed or named twice.
    """
    if [*texts, *files].count(STDIN) > 1:
        raise OperatorError("standard input can be read once only: give `-` once")
    found = [_stdin() if text == STDIN else Source(text=text) for text in texts]
    return [*found, *(_stdin() if name == STDIN else _file(name) for name in files)]


async def chunks(source: Source) -> AsyncIterator[list[str]]:
    """Yield the lines of a source that are not blank, some at a time; a text comes alone.

    Raises:
        OperatorError: the source cannot be read.
    """
    descriptor = source.descriptor
    if descriptor is None:
        yield [source.text]
        return
    reading = each_beside(lambda: _lines(descriptor))
    try:
        async for lines in reading:
            yield lines
    except OSError as error:
        raise OperatorError(f"{source.name} cannot be read ({error.strerror})") from None
    finally:
        await reading.aclose()


async def count(found: Sequence[Source]) -> int:
    """Return how many texts there are in all, or 0 where that cannot be known without reading everything."""
    total = 0
    for source in found:
        descriptor = source.descriptor
        if descriptor is None:
            total += 1
            continue
        lines = await beside(lambda descriptor=descriptor: _count(descriptor))  # type: ignore[misc]  # binds now
        if lines is None:
            return 0
        total += lines
    return total


def _stdin() -> Source:
    if sys.stdin is None:
        raise OperatorError("standard input is closed: give --file, or texts")
    return Source(descriptor=sys.stdin.fileno(), name="standard input")


def _file(name: str) -> Source:
    try:
        return Source(descriptor=os.open(name, os.O_RDONLY | os.O_CLOEXEC), name=name)
    except OSError as error:
        raise OperatorError(f"--file {name} cannot be read ({error.strerror})") from None


def _lines(descriptor: int) -> Iterator[list[str]]:
    rest = b""
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        # The end of a line that is too long is let go as it comes.
        rest = rest[: LONGEST_LINE_BYTES + 1]
        if lines := [_decoded(line) for line in whole if line.strip()]:
            yield lines
    if rest.strip():
        yield [_decoded(rest)]


def _decoded(line: bytes) -> str:
    # What is no UTF-8 is kept as it is, to be refused in its place.
    return line[: LONGEST_LINE_BYTES + 1].removesuffix(b"\r").decode(errors="surrogateescape")


def _count(descriptor: int) -> int | None:
    """Count the lines that are not blank, without moving on; None where that cannot be, or would take long."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_COUNTED_BYTES:
            return None
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        lines, rest = 0, b""
        while chunk := os.pread(descriptor, _CHUNK_BYTES, at):
            at += len(chunk)
            # Of a line that goes on it counts only whether it is blank so far.
            *whole, rest = (b"x" + chunk if rest.strip() else chunk).split(b"\n")
            lines += sum(bool(line.strip()) for line in whole)
    except OSError:
        return None
    return lines + bool(rest.strip())
