"""Ids of jobs in one piece of memory, by number: as strings they would take thrice as much. Pure."""

from typing import Final

# A UUID with its dashes.
MOST_BYTES: Final = 36


def fits(job_id: str) -> bool:
    """Say whether it is an id that a job can have."""
    return 0 < len(job_id.encode()) <= MOST_BYTES


class JobIds:
    """Room for so many ids."""

    def __init__(self, most: int) -> None:
        self._held = bytearray(most * MOST_BYTES)

    def put(self, number: int, job_id: str) -> bool:
        """Keep an id; say whether it is one that can be kept."""
        if not fits(job_id):
            return False
        data = job_id.encode()
        self._held[number * MOST_BYTES : (number + 1) * MOST_BYTES] = data.ljust(MOST_BYTES, b"\0")
        return True

    def get(self, number: int) -> str:
        """Return an id, empty where there is none."""
        return self._held[number * MOST_BYTES : (number + 1) * MOST_BYTES].rstrip(b"\0").decode()
