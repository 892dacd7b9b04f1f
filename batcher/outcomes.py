"""What came of a simulation: how each job ended, and each batch. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from batcher.policy import CloseReason
from batcher.traffic import Arrival


class Status(StrEnum):
    """How a simulated job ended; refused: the queue was full."""

    DONE = "done"
    EXPIRED = "expired"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One job's way; times in s. ``started_s`` is when its batch got its lane, infinity when none did.

    ``in_time``: done, and within its own deadline where it has one. ``late``: not done within the budget (the SLO, or
    the earlier deadline).
    """

    number: int
    arrival: Arrival
    started_s: float
    finished_s: float
    status: Status
    late: bool
    in_time: bool

    @property
    def latency_ms(self) -> float:
        """From arrival to the stored result."""
        return (self.finished_s - self.arrival.at_s) * 1000


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One run of the engine; ``useful_tokens`` are its rows' own tokens."""

    started_s: float
    ended_s: float
    rows: int
    length: int
    useful_tokens: int
    reason: CloseReason
    wide: bool
    interactive: bool


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a simulation; ``outcomes`` in the order of arrival, ``batches`` in the order they ended."""

    outcomes: Sequence[Outcome]
    batches: Sequence[Batch]

    @property
    def done(self) -> list[Outcome]:
        """The jobs that were answered."""
        return [outcome for outcome in self.outcomes if outcome.status is Status.DONE]

    @property
    def seconds(self) -> float:
        """From the first arrival to the last end of a job."""
        if not self.outcomes:
            return 0.0
        return max(outcome.finished_s for outcome in self.outcomes) - self.outcomes[0].arrival.at_s

    @property
    def throughput(self) -> float:
        """Answers a second."""
        return len(self.done) / self.seconds if self.seconds else 0.0

    @property
    def goodput(self) -> float:
        """Answers a second that came within their jobs' own deadlines."""
        return sum(outcome.in_time for outcome in self.outcomes) / self.seconds if self.seconds else 0.0

    @property
    def rows(self) -> float:
        """Rows of a batch on average."""
        return sum(batch.rows for batch in self.batches) / len(self.batches) if self.batches else 0.0

    @property
    def useful_share(self) -> float:
        """Useful over padded tokens; 1 without any."""
        padded = sum(batch.rows * batch.length for batch in self.batches)
        return sum(batch.useful_tokens for batch in self.batches) / padded if padded else 1.0

    def latency_ms(self, share: float) -> float:
        """Return the latency that ``share`` (0 to 1) of the answers stay within (nearest rank); nan without any."""
        ranked = sorted(outcome.latency_ms for outcome in self.done)
        return (
            ranked[max(0, min(len(ranked), int(-(-len(ranked) * share // 1))) - 1)]
            if ranked
            else float("nan")
        )
