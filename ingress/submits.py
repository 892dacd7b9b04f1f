"""Turns requests into jobs: quota, admission, cache, and then record and queue.

A submit may have to be made again under the job ids that it had before (`ingress.claims`), so its ids come from a seed:
that of a single submit is its job id.
"""

import asyncio
import hashlib
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from inferq.apikeys import Caller
from inferq.broker import Broker
from inferq.catalog import Catalog
from inferq.circuit import Circuit
from inferq.deadline import Deadlines
from inferq.errors import DeadlineUnreachable, HttpError, InvalidRequest, QueueFull, Unavailable
from inferq.gate import Gate
from inferq.jobs import BIRTHS, Birth, Job, Priority
from inferq.messages import encode_job
from inferq.names import Names
from inferq.steps import Origin
from inferq.telemetry import Metrics
from ingress.admission import Crowded, Rates, retry_after_s, wait_ms, whole_s
from ingress.brokerdoor import BrokerDoor
from ingress.cache import SharedCache
from ingress.quota import Quotas
from ingress.requests import InferRequest, wants_webhook, within
from ingress.standing import NO_QUOTA, Standing
from ingress.tensors import choose_model, tensors_of
from ingress.webhookdoor import WebhookDoor

# Each step has a deadline of its own. This is for all of them together, so that a single submit is answered within two
# seconds. A batch has none: cut off, it could not say which of its jobs were accepted.
ACCEPT_S: Final = 1.5


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """What the job ids of a submit come from; ``resumed`` says that another may have begun with it.

    ``maker`` tells apart who makes a submit that may have to be made again; it is empty for all others.
    """

    text: str
    maker: str = ""
    resumed: bool = False

    def job_id(self, index: int) -> str:
        """Return the id of one job of many."""
        return hashlib.sha256(f"{self.text} {index}".encode()).hexdigest()[:32]


def new_seed() -> Seed:
    """Make the seed of a submit that nobody will make again."""
    return Seed(text=os.urandom(16).hex())


class Submits:
    """Accepts jobs, or says why not; ``rates`` are what a model's batchers did at the last look.

    A job's tensors hold at most ``max_input_bytes``. ``circuit`` leads to the broker where that is a server of its own.
    """

    def __init__(
        self,
        broker: Broker,
        names: Names,
        metrics: Metrics,
        quotas: Quotas,
        *,
        cache: SharedCache | None,
        webhooks: WebhookDoor,
        limit_jobs: int,
        rates: Callable[[str], Rates],
        catalog: Catalog,
        max_input_bytes: int,
        circuit: Circuit | None = None,
    ) -> None:
        self.door = BrokerDoor(broker, circuit)
        self._webhooks = webhooks
        self._broker, self._names, self._quotas, self._cache = broker, names, quotas, cache
        self._limit_jobs, self._rates = limit_jobs, rates
        self._catalog, self._max_input_bytes = catalog, max_input_bytes
        # What they begin with stands for those that are not counted one by one.
        self._queues = {
            model: {names.shard_bases(model)[0], *names.queues(model)} for model in catalog.models
        }
        self._jobs = metrics.jobs.labels("queued")
        self._deadlines = Deadlines(ACCEPT_S)
        self.gate = Gate()
        self.queued_jobs = 0

    async def one(
        self, request: InferRequest, caller: Caller, seed: Seed, *, cached: bool
    ) -> tuple[Birth, Standing]:
        """Accept one job; raises `HttpError`."""
        self.door.require()
        if wants_webhook(request, caller.webhook):
            await self._webhooks.look(caller)
        job = self._job(request, caller, seed, seed.text, cached=cached)
        self._enter(1)
        standing = NO_QUOTA
        deadline = self._deadlines.begin()
        try:
            # A submit that is made again was charged the first time.
            if not caller.limited or seed.resumed:
                birth = await self._accept(job, seed)
            else:
                birth, standing = await self._accept_within_quota(job, caller, seed)
        except asyncio.CancelledError:
            if not deadline.is_mine(asyncio.current_task()):
                raise
            raise Unavailable("the job was not recorded and confirmed in time") from None
        except QueueFull as error:
            raise self._timed(error, job.model) from None
        finally:
            deadline.end()
            self.gate.leave(1, 0)
        return birth, standing

    async def many(
        self, requests: Sequence[InferRequest | HttpError], caller: Caller, seed: Seed, *, cached: bool
    ) -> tuple[list[Birth | HttpError], Standing]:
        """Accept jobs; for each how it was born, or why not, and the ids are the seed's.

        Raises:
            HttpError: none was looked at: the quota is used up, too much is under way, or the broker has its rest.
        """
        self.door.require()
        outcomes: dict[int, Birth | HttpError] = {}
        jobs: dict[int, Job] = {}
        if any(not isinstance(one, HttpError) and wants_webhook(one, caller.webhook) for one in requests):
            await self._webhooks.look(caller)
        for index, request in enumerate(requests):
            if isinstance(request, HttpError):
                # What a request alone says was put in its place when it was decoded.
                outcomes[index] = request
                continue
            try:
                jobs[index] = self._job(request, caller, seed, seed.job_id(index), cached=cached)
            except InvalidRequest as error:
                outcomes[index] = within(index, error)
            except HttpError as error:
                # A traceback knows this frame, and would keep all of the batch until the collector comes.
                outcomes[index] = error.with_traceback(None)
        if not jobs:
            return [outcomes[index] for index in range(len(requests))], NO_QUOTA
        ids = [job.job_id for job in jobs.values()]
        charged = caller.limited and not seed.resumed
        standing = NO_QUOTA
        self._enter(len(jobs))
        try:
            if charged:
                standing = await self._quotas.admit(caller, len(jobs), job_ids=ids)
            try:
                outcomes |= await self._accept_many(jobs, seed)
            finally:
                if charged:
                    over = [one.job_id for i, one in jobs.items() if outcomes.get(i) is not Birth.ACCEPT]
                    await self._quotas.release(caller, over)
        finally:
            self.gate.leave(len(jobs), 0)
        return [outcomes[index] for index in range(len(requests))], standing

    async def _accept_within_quota(self, job: Job, caller: Caller, seed: Seed) -> tuple[Birth, Standing]:
        standing = await self._quotas.admit(caller, 1, job_ids=(job.job_id,))
        birth = None
        try:
            birth = await self._accept(job, seed)
        finally:
            # What is refused, or answered at once, is no unfinished job.
            if birth is not Birth.ACCEPT:
                await self._quotas.release(caller, (job.job_id,))
        return birth, standing

    async def _accept(self, job: Job, seed: Seed) -> Birth:
        """Answer the job from the cache, or put it into its queue."""
        if seed.resumed:
            (refusal,) = await self.door.accept_many([self._origin(job, seed)], resumed=True)
            if refusal is not None:
                raise refusal
        elif self._cache is not None and await self._cache.answers(job):
            return Birth.ANSWER
        else:
            await self.door.accept(self._origin(job, seed))
        self._queued(1)
        return Birth.ACCEPT

    async def _accept_many(self, jobs: dict[int, Job], seed: Seed) -> dict[int, Birth | HttpError]:
        outcomes: dict[int, Birth | HttpError] = {}
        left = dict(jobs)
        if self._cache is not None and not seed.resumed:
            answered = await asyncio.gather(*map(self._cache.answers, left.values()), return_exceptions=True)
            for (index, _), answer in zip(jobs.items(), answered, strict=True):
                if isinstance(answer, HttpError):
                    outcomes[index] = answer
                elif isinstance(answer, BaseException):
                    raise answer
                elif answer:
                    outcomes[index] = Birth.ANSWER
                else:
                    continue
                del left[index]
        if not left:
            return outcomes
        refusals = await self.door.accept_many(
            [self._origin(job, seed) for job in left.values()], resumed=seed.resumed
        )
        for (index, job), refusal in zip(left.items(), refusals, strict=True):
            outcomes[index] = Birth.ACCEPT if refusal is None else self._timed(refusal, job.model)
        self._queued(sum(refusal is None for refusal in refusals))
        return outcomes

    def _job(self, request: InferRequest, caller: Caller, seed: Seed, job_id: str, *, cached: bool) -> Job:
        """Make the job of a request.

        Raises:
            ModelNotFound, InvalidRequest, DeadlineUnreachable: what it asks for cannot be had.
            Unavailable: too many webhooks wait.
        """
        card = choose_model(request, self._catalog)
        inputs = tensors_of(request, card, max_bytes=self._max_input_bytes)
        webhook = self._webhooks.choose(request, caller, resumed=seed.resumed)
        created_ms = int(time.time() * 1000)
        job = Job(
            job_id=job_id,
            model=card.name,
            text=request.text or "",
            text_pair=request.text_pair or "",
            inputs=inputs,
            created_ms=created_ms,
            priority=request.priority,
            deadline_ms=None if request.deadline_ms is None else created_ms + request.deadline_ms,
            cache=cached,
            owner=caller.name,
            counted=caller.jobs > 0,
            webhook=webhook,
        )
        # A submit that is made again may have been accepted: then what waits says nothing of it.
        if request.deadline_ms is not None and not seed.resumed:
            self._check_deadline(request.deadline_ms, job)
        return job

    def _origin(self, job: Job, seed: Seed) -> Origin:
        queue = self._names.queue_of(job)
        return Origin(job=job, queue=queue, message=encode_job(job), submit=seed.maker)

    def _check_deadline(self, deadline_ms: int, job: Job) -> None:
        counted = self._broker.counted
        shard = self._names.shard(job)
        waiting = {one: counted.jobs.get(self._names.queue(job.model, one, shard), 0) for one in Priority}
        age_s = max(0.0, asyncio.get_running_loop().time() - counted.at_s)
        rate = self._rates(job.model).capacity
        least_ms = wait_ms(waiting, job.priority, age_s=age_s, rate=rate)
        if least_ms > deadline_ms:
            raise DeadlineUnreachable(
                f"what waits already takes {least_ms / 1000:.1f} s, longer than deadline_ms allows",
                retry_after_s=whole_s((least_ms - deadline_ms) / 1000, spread=random.random()),
            )

    def _timed(self, error: HttpError, model: str) -> HttpError:
        """Return a refusal; for a full queue it says when to come back."""
        if isinstance(error, QueueFull):
            # Who is refused knows that the limit is reached, however old the last count is.
            counted = self._broker.counted.jobs
            waiting_jobs = sum(counted.get(queue, 0) for queue in self._queues[model])
            depth_jobs = max(waiting_jobs, self._limit_jobs)
            wait_s = retry_after_s(
                depth_jobs=depth_jobs,
                limit_jobs=self._limit_jobs,
                rate=self._rates(model).recent,
                spread=random.random(),
            )
            return QueueFull(error.detail, retry_after_s=wait_s)
        return error

    def _enter(self, jobs: int) -> None:
        if not self.gate.enter(jobs, 0):
            raise Crowded("as many submits are under way here as may be")

    def _queued(self, jobs: int) -> None:
        self._jobs.inc(jobs)
        self.queued_jobs += jobs


def status_of(birth: Birth) -> str:
    """Return the status that a job is born with."""
    return BIRTHS[birth]
