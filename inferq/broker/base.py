"""What a broker promises, whichever it is.

1. `accept` returns only when the record is in Redis and the message is confirmed; otherwise it raises, and the record
   does not stay queued.
2. A delivery is held until it is acked, given back or buried; when its holder dies, another batcher gets it.
3. Messages may come twice. Whoever runs one asks the record first.
4. `bury` keeps the dead letter, confirmed, before the message goes.
5. What waits is bounded, of each model by itself: at the limit `accept` raises `QueueFull`.
6. A submit that may have been made before, under the same job id, is made again without making a second job.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inferq.errors import HttpError, QueueFull, Unavailable
from inferq.jobs import OpenJob
from inferq.messages import DeadLetter, Delivery
from inferq.plurals import counted
from inferq.steps import Origin

Deliver = Callable[[Delivery], None]


class Consumer(Protocol):
    """A batcher's end of a set of queues.

    At most ``prefetch`` deliveries of all queues together are out at a time. The first queue comes first, but the later
    ones are never starved while it is busy, nor do they fill what the first one needs: see `inferq.broker.shares`.
    """

    @property
    def ready(self) -> bool:
        """Whether messages can come in now."""

    def held(self, delivery: Delivery) -> bool:
        """Whether the delivery is still ours; one that came over a lost connection is not."""

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries for good."""

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let others have deliveries at once."""

    async def bury(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Keep the dead letter, then settle the delivery.

        Raises:
            Unavailable: not confirmed; the delivery is still held, or will come again.
        """

    async def pause(self) -> None:
        """Take no deliveries until `resume`, however the connection fares; a few may still come. Never raises."""

    async def resume(self) -> None:
        """Take deliveries again; never raises."""

    async def stop(self) -> None:
        """Take no more deliveries; those that are out can still be settled."""

    async def close(self) -> None:
        """Stop, and let go of the connection."""


class ShardConsumer(Consumer, Protocol):
    """A batcher's end of queues that come and go while it runs; it begins with none.

    At most ``prefetch`` deliveries of all queues together are out at a time, or one of each where these are more.
    """

    async def take_on(self, queues: Sequence[str]) -> None:
        """Begin to take messages from these queues too; raises `Unavailable`."""

    async def let_go(self, queues: Sequence[str]) -> None:
        """Take no more from these queues; what is out of them can still be settled. Raises `Unavailable`."""

    def out_of(self, queues: Sequence[str]) -> int:
        """Return how many deliveries of these queues are out."""

    async def leave_to_others(self, queues: Sequence[str]) -> None:
        """Let others have what of these queues is still ours and in nobody's hands; raises `Unavailable`."""


@dataclass(frozen=True, kw_only=True)
class DeadEntry:
    """A dead letter in its queue; ``key`` is the broker's own handle to it."""

    key: str
    letter: DeadLetter


class TakenBack(Unavailable):
    """A submit that is made again was taken back by its first maker: its job id is of no use any more."""


def full(origin: Origin, limit_jobs: int) -> QueueFull:
    """Return the refusal of a job whose model's queues are full."""
    jobs = counted(limit_jobs, "job is", "jobs are")
    return QueueFull(f"{jobs} waiting already for the model {origin.job.model!r}")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """How many jobs waited in each queue at ``at_s``, on the loop's clock."""

    at_s: float = float("-inf")
    jobs: Mapping[str, int] = field(default_factory=dict)


class Broker(Protocol):
    """One deployment's queues."""

    @property
    def queues(self) -> Sequence[str]:
        """Every work queue, of all models."""

    @property
    def ready(self) -> bool:
        """Whether jobs can be accepted now."""

    async def open(self) -> None:
        """Connect, and declare what is missing; afterwards it reconnects by itself.

        Raises:
            OperatorError: the server refuses us, or holds a queue with other arguments.
            Unavailable: the server is away.
        """

    async def close(self) -> None:
        """Disconnect."""

    async def accept(self, origin: Origin) -> None:
        """Record and enqueue a new job; returning means both are safe.

        Raises:
            QueueFull: as many jobs wait as may.
            Unavailable: Redis or the broker is away, or did not confirm in time.
        """

    async def accept_many(
        self, origins: Sequence[Origin], *, resumed: bool = False
    ) -> list[HttpError | None]:
        """Record and enqueue new jobs in one go; for each None once it is safe, or what `accept` would raise.

        ``resumed`` says that they may have been submitted before: those that were accepted then are so now.
        """

    async def consume(
        self, queues: Sequence[str], prefetch: int, consumer: str, deliver: Deliver
    ) -> Consumer:
        """Start to take messages from the queues, earlier named ones first."""

    async def consume_shards(
        self, model: str, prefetch: int, consumer: str, deliver: Deliver
    ) -> ShardConsumer:
        """Start to take messages from those queues of the model that the consumer will be told to take on."""

    async def missing(self, jobs: Sequence[OpenJob]) -> set[str]:
        """Name the jobs whose messages are in no queue and in no living batcher's hands."""

    async def requeue(self, job: OpenJob) -> None:
        """Publish the message of a job that lost it."""

    async def settle_dropped(self, write: Callable[[bytes, str], Awaitable[DeadLetter | None]]) -> int:
        """Turn what the broker itself gave up into dead letters, and return how many messages that were.

        ``write`` takes body and queue, finishes the record and returns the letter; None when the job needs none.
        """

    async def depth(self) -> int:
        """Count the jobs that wait in all queues."""

    async def waiting(self, queues: Sequence[str]) -> int:
        """Count the jobs that wait in these queues, each of which is asked."""

    @property
    def counted(self) -> Counted:
        """What waited when it was last counted, and what this process accepted since; counts nothing itself."""

    async def dead_count(self) -> int:
        """Count the dead letters."""

    async def dead(self, limit: int) -> list[DeadEntry]:
        """List dead letters, oldest first."""

    async def drop_dead(self, job_ids: set[str] | None) -> list[DeadLetter]:
        """Remove the dead letters of these jobs (of all, when None) and return them."""
