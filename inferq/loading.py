"""Reads the settings of this process, those too that the environment gives as the name of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from inferq.settings import Settings, load

MOST_BYTES: Final = 8192


def load_settings(
    environ: Mapping[str, str], flags: Mapping[str, str | None] | None = None
) -> tuple[Settings, dict[str, str]]:
    """Read the settings as `inferq.settings.load` does, with files; raises OperatorError."""
    return load(environ, flags, read=read_line)


def read_line(name: str) -> str:
    """Return the one line that a file holds, without the white space around it.

    Raises:
        ValueError: it cannot be read, or does not hold one line of at most 8192 bytes; the text tells nothing of what
            it holds.
    """
    try:
        with Path(name).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(
            f"the file cannot be read ({error.strerror}): name one that this process may read"
        ) from None
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file is too large: {MOST_BYTES} bytes are allowed")
    try:
        lines = content.decode("utf-8-sig").strip().splitlines()
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8: write it as plain text") from None
    if len(lines) != 1:
        raise ValueError(f"the file holds {len(lines)} lines: write one")
    return lines[0]
