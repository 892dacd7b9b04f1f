"""Synchronous calls through the pipeline: submit, wait, answer.

A call that is not answered, whatever the reason, has its jobs cancelled: who does not wait any more costs no compute. A
process that dies cannot do that, so each job also has the call's time as its own deadline.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import structlog
from starlette.types import Message

from inferq.apikeys import Caller
from inferq.catalog import Catalog
from inferq.errors import InferenceFailed, InvalidRequest, TimedOut, Unavailable, first_of
from inferq.jobs import BatchInfo, Birth, ErrorCode, JobError, Status, Timings
from inferq.results import decode_result
from inferq.steps import cancel
from inferq.store import Store
from inferq.telemetry import Metrics
from inferq.v2.calls import Answer, Call
from ingress.requests import BinaryTensor, InferRequest
from ingress.submits import Seed, Submits, new_seed
from ingress.waits import Waits

# A call's own time is over first, so that one clock alone decides.
LONGER_S: Final = 1.0
_NO_DATA: Final = msgspec.Raw(b"[]")

_log = structlog.get_logger(__name__)


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    status: Status
    result: msgspec.Raw
    error: JobError | None
    cached: bool
    timings_ms: Timings | None
    batch: BatchInfo | None


_decoder = msgspec.json.Decoder(_Record)


class PipelineCalls:
    """Answers calls by jobs; ``served`` says which models have a batcher, ``checks`` how Redis and broker are."""

    def __init__(
        self,
        submits: Submits,
        waits: Waits,
        store: Store,
        metrics: Metrics,
        *,
        catalog: Catalog,
        served: Callable[[], Collection[str]],
        checks: Callable[[], Awaitable[Mapping[str, str]]],
        process_id: str,
    ) -> None:
        self._submits, self._waits, self._store, self._catalog = submits, waits, store, catalog
        self._served, self._checks, self._id = served, checks, process_id
        self._cancelled = metrics.jobs.labels(Status.CANCELLED)

    @property
    def catalog(self) -> Catalog:
        """The models that may be called."""
        return self._catalog

    async def complaint(self) -> str:
        """Say what is not well."""
        checks = await self._checks()
        return ", ".join(f"{name}: {state}" for name, state in checks.items() if state != "ok")

    def served(self, model: str) -> bool:
        """Say whether a batcher serves the model."""
        return model in self._served()

    async def answers(self, call: Call, caller: Caller) -> Sequence[Answer]:
        """Return an answer for each job of a call; raises `HttpError`."""
        seed = new_seed()
        requests = _requests(call)
        ids = [seed.text] if len(requests) == 1 else [seed.job_id(i) for i in range(len(requests))]
        left = set(ids)
        try:
            await self._submit(requests, caller, seed, cached=call.cached)
            async with asyncio.TaskGroup() as tasks:
                waits = [tasks.create_task(self._answer(one, call, caller, left)) for one in ids]
        except ExceptionGroup as group:
            raise first_of(group) from None
        finally:
            if left:
                await self._cancel(left)
        return [wait.result() for wait in waits]

    async def _submit(
        self, requests: Sequence[InferRequest], caller: Caller, seed: Seed, *, cached: bool
    ) -> None:
        if len(requests) == 1:
            await self._submits.one(requests[0], caller, seed, cached=cached)
            return
        outcomes, _ = await self._submits.many(requests, caller, seed, cached=cached)
        for outcome in outcomes:
            if not isinstance(outcome, Birth):
                raise outcome

    async def _answer(self, job_id: str, call: Call, caller: Caller, left: set[str]) -> Answer:
        within_s = call.timeout_s + LONGER_S
        waited = await self._waits.final_record(caller, job_id, within_s, _nothing_more)
        if waited.record is None:
            if waited.outcome == "passed":
                raise TimedOut(f"there was no answer within {call.timeout_s:g} s")
            raise Unavailable(_WHY.get(waited.outcome, "the end of the job cannot be waited for"))
        left.discard(job_id)
        return self._read(waited.record)

    def _read(self, data: bytes) -> Answer:
        record = _decoder.decode(data)
        if record.error is not None:
            kind = InvalidRequest if record.error.code is ErrorCode.INVALID_INPUT else InferenceFailed
            raise kind(record.error.detail)
        if record.status is not Status.DONE:
            if record.status is Status.EXPIRED:
                raise TimedOut("the time of the call was over before it was computed")
            raise Unavailable(f"the job was {record.status} by somebody else")
        return Answer(
            result=decode_result(bytes(record.result)),
            node_id=self._id if record.batch is None else record.batch.batcher,
            cached=record.cached,
            inference_us=0 if record.timings_ms is None else round(record.timings_ms.inference * 1000),
        )

    async def _cancel(self, job_ids: Collection[str]) -> None:
        """Cancel jobs; one that is not there, or has ended, stays as it is."""
        with suppress(Unavailable):
            moves = await self._store.apply([cancel(job_id) for job_id in job_ids])
            self._cancelled.inc(sum(moved.applied for moved in moves))
            _log.debug("calls.cancelled", jobs=len(job_ids))


_WHY: Final = {
    "crowded": "as many clients wait for jobs here as may",
    "stopped": "this process is stopping",
    "unavailable": "Redis is away",
}


def _requests(call: Call) -> list[InferRequest]:
    how: dict[str, Any] = {
        "model": call.card.name,
        "priority": call.priority,
        "deadline_ms": max(1, math.ceil(call.timeout_s * 1000)),
        # Who waits is told here, whatever the key says.
        "webhook": "",
    }
    if not call.inputs:
        return [InferRequest(text=text, **how) for text in call.texts]
    inputs = [
        BinaryTensor(name=one.name, datatype=one.datatype, shape=list(one.shape), data=_NO_DATA, raw=one.data)
        for one in call.inputs
    ]
    return [InferRequest(inputs=list(inputs), **how)]


async def _nothing_more() -> Message:
    """Stand for the client's connection, which is watched elsewhere."""
    await asyncio.Event().wait()
    raise AssertionError("it is never set")
