"""Final records for tests."""

from loadgen.generator.jobrecord import Batch, Record, Timings


def record(
    *,
    status: str = "done",
    total_ms: float = 10.0,
    inference_ms: float = 5.0,
    batch: str = "",
    size: int = 1,
    reason: str = "full",
    cached: bool = False,
) -> Record:
    """Return a record; without a batch's id it is of none."""
    return Record(
        status=status,
        created_at="2026-01-31T12:00:00.100Z",
        timings_ms=Timings(total=total_ms, inference=inference_ms),
        batch=Batch(id=batch, size=size, tokens=10, padded_tokens=20, close_reason=reason) if batch else None,
        cached=cached,
    )
