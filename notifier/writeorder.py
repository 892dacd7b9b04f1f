"""Whose messages are written in this turn of the loop. Pure.

Rules:

1. Who was not written to for `RESTED_S` goes first, and all of those do.
2. Of the others only `AT_A_TIME` are served in a turn, in the order in which they were woken. The rest wait for the
   next turns, in which others may be first again.

So 300 clients that watch everything, and to each of whom a change is a write of some ten microseconds, do not hold up
one that waits for its own few jobs. What comes for them meanwhile goes out with what waits, in one write.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

RESTED_S: Final = 0.01
AT_A_TIME: Final = 32


class Written(Protocol):
    """Somebody to write to; ``written_s`` is when that was last done, on the loop's clock."""

    written_s: float


AnyWritten = TypeVar("AnyWritten", bound=Written)


def parted(woken: Sequence[AnyWritten], now_s: float) -> tuple[list[AnyWritten], list[AnyWritten]]:
    """Return who is to be written to now, and who in the turns that follow."""
    if len(woken) <= AT_A_TIME:
        return list(woken), []
    since_s = now_s - RESTED_S
    first = [one for one in woken if one.written_s <= since_s]
    busy = [one for one in woken if one.written_s > since_s]
    return first + busy[:AT_A_TIME], busy[AT_A_TIME:]
