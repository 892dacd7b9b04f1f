"""Calls that come past the queue: their jobs enter the same window and the same batches as all others.

Nothing is recorded of them and nothing is acked: whoever asks waits for the answer, and if he leaves, or his time is
over, a job that is not begun never is. As many are in hand as a few batches hold, so that a crowd of callers is sent
away at once, and those who come through the queue are served beside them.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from batcher.assembly import Assembly
from batcher.intake import Found
from batcher.item import Item
from batcher.outcome import Outcome
from batcher.settling import RESTS
from batcher.tokenizer import InputRefused
from inferq.apikeys import Caller
from inferq.catalog import Catalog, ModelCard
from inferq.errors import CircuitOpen, HttpError, InferenceFailed, InvalidRequest, Unavailable
from inferq.jobs import ErrorCode, Job, JobError
from inferq.store import wall_ms
from inferq.v2.calls import Answer, Call

# So many batches of jobs are in hand at a time, and a call alone may always be as large as it can.
BATCHES: Final = 4


class _Waiting(NamedTuple):
    future: asyncio.Future[Outcome]
    admitted: Item | Found

    @property
    def item(self) -> Item:
        return self.admitted.item if isinstance(self.admitted, Found) else self.admitted


class DirectCalls:
    """Answers calls by batches of this process, from `begin` on until `stop`; ``batcher_id`` is what answers name."""

    def __init__(self, batcher_id: str) -> None:
        self._id = batcher_id
        self._card: ModelCard | None = None
        self._assembly: Assembly | None = None
        self._stopped = False
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}

    @property
    def jobs(self) -> int:
        """How many jobs are in hand."""
        return len(self._waiting)

    @property
    def catalog(self) -> Catalog:
        """The one model; raises `Unavailable` until it is loaded."""
        if self._card is None:
            raise Unavailable("the model is loading")
        return Catalog(default=self._card.name, models={self._card.name: self._card})

    def load(self, card: ModelCard) -> None:
        """Say which model it is."""
        self._card = card

    def begin(self, assembly: Assembly) -> None:
        """Take calls from now on."""
        self._assembly = assembly

    def stop(self) -> None:
        """Take no further call; those in hand are answered, or told by the worker that they are not."""
        self._stopped = True

    def end(self) -> None:
        """Tell everybody who still waits that there will be no answer."""
        self._stopped = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable("this batcher is stopping"))

    async def complaint(self) -> str:
        """Say why no call would be answered at present."""
        if self._stopped:
            return "this batcher is stopping"
        if self._assembly is None:
            return "this batcher is not ready yet"
        if self._assembly.circuit.rests:
            return RESTS
        return ""

    def served(self, model: str) -> bool:
        """Say whether calls of this model are answered."""
        loaded = self._card is not None and self._card.name == model
        return loaded and not self._stopped and self._assembly is not None

    async def answers(self, call: Call, caller: Caller) -> Sequence[Answer]:
        """Return an answer for each job of a call; raises `HttpError`."""
        if complaint := await self.complaint():
            raise CircuitOpen(complaint) if complaint == RESTS else Unavailable(complaint)
        assert self._assembly is not None
        worker, most = self._assembly.worker, BATCHES * self._assembly.planner.max_batch_size
        jobs = [self._job(call, caller, *texts) for texts in call.paired or [("", "")]]
        if self._waiting and len(self._waiting) + len(jobs) > most:
            raise Unavailable(f"{len(self._waiting)} jobs are in hand past the queue, and no more may be")
        # All of them before any is begun: of a call that is refused nothing is left.
        waiting = [self._admitted(job) for job in jobs]
        for one in waiting:
            self._waiting[one.item.job_id] = one.future
            worker.take(one.admitted)
        try:
            return [self._answer(await one.future) for one in waiting]
        finally:
            for one in waiting:
                del self._waiting[one.item.job_id]
                # Whoever is cancelled while he waits for it has it cancelled.
                if one.future.cancel() or one.future.cancelled():
                    worker.abandon(one.item)
                else:
                    # The first failure is the call's; that of another is nobody's news.
                    one.future.exception()

    def _admitted(self, job: Job) -> _Waiting:
        assert self._assembly is not None
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def tell(said: Outcome | HttpError) -> None:
            if future.done():
                return
            if isinstance(said, HttpError):
                future.set_exception(said)
            else:
                future.set_result(said)

        try:
            admitted = self._assembly.intake.admit_direct(job, tell)
        except InputRefused as error:
            raise InvalidRequest(error.reason) from None
        return _Waiting(future=future, admitted=admitted)

    def _answer(self, said: Outcome) -> Answer:
        if isinstance(said.result, JobError):
            kind = InvalidRequest if said.result.code is ErrorCode.INVALID_INPUT else InferenceFailed
            raise kind(said.result.detail)
        inference_us = round(said.inference_ms * 1000)
        cached = said.batch is None
        return Answer(result=said.result, node_id=self._id, cached=cached, inference_us=inference_us)

    def _job(self, call: Call, caller: Caller, text: str, pair: str) -> Job:
        now_ms = int(wall_ms())
        return Job(
            job_id=os.urandom(16).hex(),
            model=call.card.name,
            text=text,
            text_pair=pair,
            inputs=call.inputs,
            created_ms=now_ms,
            priority=call.priority,
            deadline_ms=now_ms + max(1, round(call.timeout_s * 1000)),
            cache=call.cached,
            owner=caller.name,
        )
