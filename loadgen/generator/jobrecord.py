"""What a run keeps of a job's final record, and the batches that records tell of. Pure.

1. How long a result took to be stored is told by the record alone: by the timing `total`, which is stamped in the
   atomic step that stores; where a job was answered without a batch, by its stamps, which are whole milliseconds.
2. A batch stands in the record of each of its jobs and is counted once, by its id. The engine's time for a job is that
   of its batch over the batch's jobs.
"""

import math
from collections import Counter
from datetime import datetime
from typing import Final

import msgspec

from loadgen.generator.report import Batches
from loadgen.pushed import FINAL_STATUSES

DONE: Final = "done"


class Timings(msgspec.Struct, frozen=True, gc=False):
    """The timings that count, in milliseconds."""

    total: float = 0.0
    inference: float = 0.0


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The batch a job was run in."""

    id: str
    size: int
    tokens: int
    padded_tokens: int
    close_reason: str


class Record(msgspec.Struct, frozen=True):
    """The part of a record that is looked at."""

    status: str
    created_at: str = ""
    finished_at: str | None = None
    timings_ms: Timings | None = None
    batch: Batch | None = None
    cached: bool = False

    @property
    def final(self) -> bool:
        """Whether nothing more will come of the job."""
        return self.status in FINAL_STATUSES

    @property
    def stored_ms(self) -> float:
        """How long it took from acceptance to the stored result; nan where the record does not say."""
        if self.timings_ms is not None and self.timings_ms.total > 0:
            return self.timings_ms.total
        if self.finished_at is None:
            return math.nan
        return (_epoch_s(self.finished_at) - _epoch_s(self.created_at)) * 1000

    @property
    def stored_at_s(self) -> float:
        """When the result was stored, in seconds since the epoch; nan where the record does not say."""
        took_ms = self.stored_ms
        return took_ms if math.isnan(took_ms) else _epoch_s(self.created_at) + took_ms / 1000


class Frame(msgspec.Struct, frozen=True):
    """A pushed frame; of an error ``code``, and ``job_id`` where it is about one."""

    type: str
    job_id: str = ""
    job: Record | None = None
    code: str = ""


class BatchCount:
    """Counts the batches of done jobs; an id of each is kept."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._sizes: Counter[int] = Counter()
        self._reasons: Counter[str] = Counter()
        self._tokens = self._padded_tokens = self._jobs = 0
        self._compute_ms = 0.0

    def add(self, record: Record) -> None:
        """Count the batch of a done job, if it had one."""
        batch = record.batch
        if batch is None:
            return
        if record.timings_ms is not None:
            self._jobs += 1
            self._compute_ms += record.timings_ms.inference / max(1, batch.size)
        if batch.id in self._known:
            return
        self._known.add(batch.id)
        self._sizes[batch.size] += 1
        self._reasons[batch.close_reason] += 1
        self._tokens += batch.tokens
        self._padded_tokens += batch.padded_tokens

    def batches(self) -> Batches:
        """Return what was counted."""
        return Batches(
            count=len(self._known),
            sizes=dict(sorted(self._sizes.items())),
            reasons=dict(sorted(self._reasons.items())),
            tokens=self._tokens,
            padded_tokens=self._padded_tokens,
            compute_ms=self._compute_ms / self._jobs if self._jobs else None,
        )


decode_frame: Final = msgspec.json.Decoder(Frame).decode
decode_record: Final = msgspec.json.Decoder(Record).decode


def _epoch_s(stamp: str) -> float:
    """Return nan for what is no stamp: a record is somebody else's word."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return math.nan
