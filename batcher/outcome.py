"""What a run, or the cache, says to one input. Pure."""

import msgspec

from inferq.jobs import BatchInfo, JobError
from inferq.results import AnyResult


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a run, or the cache, says to one input; ``batch`` is None for what was found."""

    result: AnyResult | JobError
    batch: BatchInfo | None
    inference_ms: float
    ended_ms: float
