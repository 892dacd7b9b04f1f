"""What a client notes of a pushed frame: what it is about, and how old the news was when it came. Pure.

A record says to a microsecond when its result was stored: `created_at` is a whole number of milliseconds, and the
timing `total`, which Redis adds in the atomic step that stores, counts from there in thousandths of one. `finished_at`
alone is cut to whole milliseconds.
"""

from datetime import datetime
from typing import Final

import msgspec

FINAL: Final = frozenset({"job.done", "job.failed", "job.cancelled", "job.expired"})
FINAL_STATUSES: Final = frozenset(kind.removeprefix("job.") for kind in FINAL)
SNAPSHOT: Final = "snapshot"
ERROR: Final = "error"


class Timed(msgspec.Struct, frozen=True):
    """The timing that counts."""

    total: float


class Record(msgspec.Struct, frozen=True):
    """The part of a record that is looked at."""

    status: str
    created_at: str
    timings_ms: Timed | None = None


class Pushed(msgspec.Struct, frozen=True):
    """A frame; of an error ``code``, and ``job_id`` where it is about one."""

    type: str
    job_id: str = ""
    seq: int = 0
    job: Record | None = None
    code: str = ""

    @property
    def final(self) -> bool:
        """Whether nothing more will come of the job."""
        return self.job is not None and self.job.status in FINAL_STATUSES

    def age_ms(self, now_s: float) -> float:
        """Return how long ago the result was stored, at ``now_s`` since the epoch; nan where none is in it."""
        if self.job is None or self.job.timings_ms is None:
            return float("nan")
        created_s = datetime.fromisoformat(self.job.created_at).timestamp()
        return (now_s - created_s) * 1000 - self.job.timings_ms.total


decode: Final = msgspec.json.Decoder(Pushed).decode
decode_record: Final = msgspec.json.Decoder(Record).decode
