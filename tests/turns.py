"""Tests run beside each other in several processes; one that measures times has the machine to itself.

Most of them wait for something most of the time. One that is marked ``alone`` begins once those that run have ended,
and no other begins before its end. Each process takes its turns by locks on two files that are there anyway, so nothing
has to be made before or cleared away, and another run of the same checkout keeps to them too. Whoever waits for the
room holds the gate, so that a test which wants the room for itself is not passed over for ever.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GATE: Final = Path(__file__)
ROOM: Final = Path(__file__).with_name("conftest.py")


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Hold the machine, shared or ``alone``, for as long as the block lasts."""
    with ROOM.open("rb") as room:
        with GATE.open("rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            # Said aloud, since closing it does not end the lock where a process that was forked still has it open.
            fcntl.flock(room, fcntl.LOCK_UN)
