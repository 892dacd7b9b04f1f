"""Bounds what is under way in a process. Pure."""

from typing import Final

# Submits that one process has under way at a time, and the bytes of their bodies.
MOST_JOBS: Final = 4096
MOST_BYTES: Final = 64 * 1024 * 1024


class Gate:
    """Counts the submits under way; ``most_jobs`` and ``most_bytes`` are let in at a time."""

    def __init__(self, *, most_jobs: int = MOST_JOBS, most_bytes: int = MOST_BYTES) -> None:
        self._most_jobs, self._most_bytes = most_jobs, most_bytes
        self.jobs = self.bytes = 0

    def enter(self, jobs: int, size: int) -> bool:
        """Let a submit in, unless that is too much; who was let in has to `leave`."""
        if self.jobs + jobs > self._most_jobs or self.bytes + size > self._most_bytes:
            return False
        self.jobs += jobs
        self.bytes += size
        return True

    def leave(self, jobs: int, size: int) -> None:
        """A submit has its answer."""
        self.jobs -= jobs
        self.bytes -= size
