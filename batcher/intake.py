"""What becomes of a delivery: an item for the window, a refusal, or a job whose answer is there or on its way.

A job that does not forbid it is looked up among the finished results of equal inputs before it is tokenised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from batcher.cache import ResultCache
from batcher.item import Item
from batcher.outcome import Outcome
from batcher.shapes import EXACT, Shapes
from batcher.tally import Tally
from batcher.task import NOT_READ, Task
from batcher.tokenizer import InputRefused
from batcher.wallclock import WallClock
from inferq.cachekey import job_key
from inferq.errors import HttpError, Undecodable
from inferq.jobs import ErrorCode, Job, Priority
from inferq.messages import Delivery, decode_job
from inferq.results import AnyResult
from inferq.steps import Origin
from inferq.store import wall_ms


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A delivery that cannot be run, and why; ``origin`` is None when it could not be read."""

    delivery: Delivery
    origin: Origin | None
    code: ErrorCode
    reason: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """A job whose result is known; ``lookup_ms`` is how long it took to find it, its input's key included."""

    item: Item
    result: AnyResult
    lookup_ms: float


class Intake:
    """Reads deliveries for one batcher; ``clock`` gives seconds that never go back, ``slo_ms`` is every job's budget.

    ``cache`` is None when equal inputs are all to be run. ``shapes`` say what a job's tokens are padded to at least.
    """

    def __init__(
        self,
        *,
        task: Task,
        tally: Tally,
        cache: ResultCache | None,
        model_digest: str,
        precision: str,
        slo_ms: int,
        clock: Callable[[], float],
        shapes: Shapes = EXACT,
    ) -> None:
        self._task, self._tally, self._cache = task, tally, cache
        self._digest, self._precision = model_digest, precision
        self._slo_s, self._clock = slo_ms / 1000, clock
        self._wall, self._shapes = WallClock(), shapes

    def read(self, delivery: Delivery) -> Origin | Refusal:
        """Decode a delivery."""
        try:
            job = decode_job(delivery.body)
        except Undecodable as error:
            return Refusal(delivery=delivery, origin=None, code=ErrorCode.UNDECODABLE, reason=error.reason)
        self._tally.saw(delivery.queue, job.created_ms)
        return Origin(job=job, queue=delivery.queue, message=delivery.body)

    def admit(self, delivery: Delivery, origin: Origin) -> Item | Found | Refusal:
        """Return what is to be done with a job that is not in our hands yet."""
        try:
            return self._item(origin, [delivery])
        except InputRefused as error:
            return Refusal(
                delivery=delivery, origin=origin, code=ErrorCode.INVALID_INPUT, reason=error.reason
            )

    def admit_direct(self, job: Job, tell: Callable[[Outcome | HttpError], None]) -> Item | Found:
        """Return what is to be done with a job that comes past the queue; raises `InputRefused`."""
        return self._item(Origin(job=job, queue="", message=b""), [], tell)

    def _item(
        self,
        origin: Origin,
        deliveries: Sequence[Delivery],
        tell: Callable[[Outcome | HttpError], None] | None = None,
    ) -> Item | Found:
        job, arrived_s, arrived_ms, begun_s = origin.job, self._clock(), wall_ms(), self._clock()
        self._wall.see(arrived_s, arrived_ms, begun_s)
        self._tally.admitted(arrived_ms - job.created_ms)
        key, read, known, tokenize_ms, lookup_s = None, NOT_READ, None, 0.0, 0.0
        if self._cache is not None and job.cache:
            sought_s = self._clock()
            key = job_key(job, model_digest=self._digest, precision=self._precision)
            known = self._cache.get(key)
            lookup_s = self._clock() - sought_s
            self._tally.looked_up(hit=known is not None, took_s=lookup_s)
        if known is None:
            read = self._task.read(job)
            tokenize_ms = (self._clock() - begun_s) * 1000
        due_s = inf if job.deadline_ms is None else self._wall.at_s(job.deadline_ms)
        accepted_s = min(arrived_s, self._wall.at_s(job.created_ms))
        item = Item(
            job_id=job.job_id,
            length=self._shapes.length(read.length),
            arrived_s=arrived_s,
            budget_s=min(due_s, accepted_s + self._slo_s),
            due_s=due_s,
            key=key,
            interactive=job.priority is Priority.INTERACTIVE,
            origin=origin,
            deliveries=list(deliveries),
            group=read.group,
            ids=read.ids,
            truncated=read.truncated,
            inputs=read.inputs,
            types=read.types,
            arrived_ms=arrived_ms,
            tokenize_ms=tokenize_ms,
            tell=tell,
        )
        return item if known is None else Found(item=item, result=known, lookup_ms=lookup_s * 1000)
