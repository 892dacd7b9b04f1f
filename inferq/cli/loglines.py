"""What the children of `inferq up` write, each line with the name of its process before it."""

import contextlib
import sys
from typing import Final

_WIDTH: Final = 10
_COLOURS: Final = (36, 33, 35, 32, 34)


class LogLines:
    """Writes to standard error; a reader that went away stops nothing."""

    def __init__(self) -> None:
        self._coloured = sys.stderr.isatty()
        self._names: dict[str, int] = {}

    def write(self, name: str, line: str) -> None:
        """Write one line of the process ``name``."""
        head = f"{name:<{_WIDTH}} |"
        if self._coloured:
            colour = _COLOURS[self._names.setdefault(name, len(self._names)) % len(_COLOURS)]
            head = f"\x1b[{colour}m{head}\x1b[0m"
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{head} {line}\n")
            sys.stderr.flush()

    def say(self, line: str) -> None:
        """Write one line of the supervisor."""
        self.write("inferq", line)
