"""Whether a batcher moves: what its liveness is judged by. Pure.

Rules:

1. It is stuck when work waits, in its hands or in its queues, and nothing has moved for ``stall_s``. A batch that ended
   in whatever way moved something, and so did a step of a job that the store took; taking messages in is no progress.
2. What keeps it from working is no fault of its own: while Redis or the broker is away, or the engine is loaded,
   replaced or has its rest, nothing is counted, and afterwards the count begins anew.
3. Without work there is nothing to count.
4. Time counts only where it was watched: of a longer gap between two looks, `MOST_STEP_S`. A process that was frozen,
   or a machine that slept, is not stuck when it wakes.
5. A stuck batcher that moves again is well.
"""

from dataclasses import dataclass
from typing import Final

from inferq.plurals import counted

# A look may have waited so long for a Redis that is frozen.
MOST_STEP_S: Final = 6.0
# An engine that hangs is killed within its own time; it is then loaded again and given the batch once more.
ENGINE_TIMES: Final = 2
MARGIN_S: Final = 30.0
LEAST_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A batcher at a moment: jobs in its hands, messages in its queues, and a count that rises with all that moves.

    ``excuse`` says what keeps it from working, if anything does.
    """

    in_hand: int
    queued: int
    progress: int
    excuse: str = ""


class Pulse:
    """Judges one batcher by what it is seen to do; times are in seconds of a clock that never goes back."""

    def __init__(self, *, stall_s: float) -> None:
        self._stall_s = stall_s
        # No progress of a batcher: the first look begins the count.
        self._progress = -1
        self._seen_s = 0.0
        self._still_s = 0.0

    def look(self, sight: Sight, now_s: float) -> str:
        """Take note of a moment; return why the batcher is stuck, or nothing while it is not."""
        before_s, self._seen_s = self._seen_s, now_s
        moved, self._progress = sight.progress != self._progress, sight.progress
        if moved or sight.excuse or not (sight.in_hand or sight.queued):
            self._still_s = 0.0
        else:
            self._still_s += min(max(0.0, now_s - before_s), MOST_STEP_S)
        if self._still_s <= self._stall_s:
            return ""
        held = counted(sight.in_hand, "job")
        work = f"{held} in hand" if sight.in_hand else f"{counted(sight.queued, 'message')} in the queues"
        return f"nothing has moved for {self._still_s:.0f} s with {work}"


def stall_limit_s(stall_s: int, engine_timeout_ms: int) -> float:
    """Return after how long without progress a batcher is stuck: as set, or from what a batch may take where 0 is."""
    return float(stall_s) or max(LEAST_S, ENGINE_TIMES * engine_timeout_ms / 1000 + MARGIN_S)
