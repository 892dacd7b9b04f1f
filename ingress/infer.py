"""The submit endpoints, `POST /v1/infer` and `POST /v1/infer/batch`: plain ASGI, past router and middleware."""

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from inferq import bodies, problems
from inferq.apikeys import Caller
from inferq.broker import TakenBack
from inferq.errors import HttpError, InferqError, Unavailable, UnsupportedMediaType
from inferq.gate import Gate
from inferq.jobs import Birth
from inferq.keyring import KeyRing, the_one
from inferq.mediatype import check_headers
from inferq.telemetry import Metrics
from inferq.tensors.binary import HEADER
from ingress.answers import (
    REPLAYED,
    Accepted,
    AcceptedItem,
    BatchAnswer,
    BatchRefused,
    Header,
    RefusedItem,
    encode,
    send_accepted,
    send_problem,
    send_record,
)
from ingress.binarybody import decode_binary
from ingress.claims import SeedSpent
from ingress.heads import Head, head_of
from ingress.idemkey import idempotency_key
from ingress.idempotency import Done, Idempotency
from ingress.prefer import wait_s
from ingress.requests import MAX_BATCH_BYTES, MAX_BODY_BYTES, InferRequest, decode, decode_batch
from ingress.standing import Standing
from ingress.submits import Seed, Submits, new_seed, status_of
from ingress.waits import Waits

INFER_PATH: Final = "/v1/infer"
BATCH_PATH: Final = "/v1/infer/batch"

_log = structlog.get_logger(__name__)


class Form(Protocol):
    """What distinguishes one endpoint from the other."""

    async def read(self, receive: Receive, head: Head) -> bytes:
        """Read a body; raises `BodyTooLarge`, `Unavailable` or `bodies.Disconnected`."""

    def release(self, body: bytes) -> None:
        """A body that was read is not needed any more."""

    def parse(self, body: bytes, head: Head) -> Any:
        """Return what `submit` takes; raises `InvalidRequest` or `UnsupportedMediaType`."""

    async def submit(self, parsed: Any, caller: Caller, seed: Seed, *, cached: bool) -> tuple[Done, Standing]:
        """Submit and return the answer 202; raises `HttpError` or `_NoneAccepted`."""


class SubmitEndpoint:
    """Answers submits of one form: who calls, what the body is, whether it was answered before, and then the jobs."""

    def __init__(
        self, form: Form, keys: KeyRing, idempotency: Idempotency, waits: Waits, metrics: "SubmitMetrics"
    ) -> None:
        self._form, self._keys, self._idempotency, self._waits = form, keys, idempotency, waits
        self._refused, self._seconds = metrics.refused, metrics.seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        document: bytes | None = None
        try:
            head = head_of(scope["headers"])
            # Before the body: who has no key does not get to send one.
            caller = self._keys.caller(the_one(scope["headers"]) if head.repeated else head.authorization)
            body = await self._form.read(receive, head)
            begun_s = time.perf_counter()
            try:
                done, headers = await self._answer(scope, head, caller, body)
            finally:
                self._form.release(body)
                # Who waits below for the end of a job is not to hold what nobody counts any more.
                del body
            self._seconds.observe(time.perf_counter() - begun_s)
        except HttpError as error:
            refusal = error
            if isinstance(none := error.__cause__, _NoneAccepted):
                refusal, document = none.error, none.document
        except _NoneAccepted as none:
            refusal, document = none.error, none.document
        except bodies.Disconnected:
            return
        except Exception as error:
            # Nobody else would answer: this endpoint has no middleware around it.
            _log.error("ingress.internal_error", exc_info=error)
            await problems.internal()(scope, receive, send)
            return
        else:
            # What has no place is no job, but many.
            if head.prefer is None or done.location is None or (within_s := wait_s(head.prefer)) is None:
                await send_accepted(send, done.answer, headers)
            else:
                await self._send_waited(done, headers, caller, within_s, receive, send)
            return
        self._refused.labels(refusal.code).inc()
        try:
            await send_problem(send, refusal, document)
        finally:
            # Its traceback knows this frame: named here, it would keep the body until the collector comes.
            del refusal

    async def _send_waited(
        self, done: Done, headers: list[Header], caller: Caller, within_s: int, receive: Receive, send: Send
    ) -> None:
        """Send the final record, if the job ends within so many seconds, and the answer 202 otherwise."""
        assert done.location is not None, "it is a single job's"
        job_id = done.location.rpartition("/")[2]
        waited = await self._waits.final_record(caller, job_id, within_s, receive)
        if waited.applied:
            headers.append((b"preference-applied", b"wait=%d" % within_s))
        if waited.record is None:
            await send_accepted(send, done.answer, headers)
        else:
            await send_record(send, waited.record, done.location, headers)

    async def _answer(
        self, scope: Scope, head: Head, caller: Caller, body: bytes
    ) -> tuple[Done, list[Header]]:
        parsed = self._form.parse(body, head)
        submit = partial(self._form.submit, parsed, caller, cached=head.cached)
        headers: list[Header] = []
        if not head.idempotent:
            done, standing = await submit(new_seed())
            _add(headers, standing)
        else:
            key = idempotency_key(scope["headers"])
            assert key is not None, "the head has one"

            async def work(seed: str, resumed: bool) -> Done:
                try:
                    made, standing = await submit(Seed(text=seed, maker=os.urandom(8).hex(), resumed=resumed))
                except TakenBack as error:
                    raise SeedSpent from error
                except _NoneAccepted as none:
                    # What becomes of the key follows from this one, and the answer from its cause.
                    raise none.decisive from none
                _add(headers, standing)
                return made

            done = await self._idempotency.once(
                scope=caller.name, path=scope["path"], key=key, body=body, work=work
            )
            if done.replayed:
                headers.append(REPLAYED)
        if done.location is not None:
            headers.append((b"location", done.location.encode()))
        return done, headers


class SubmitMetrics:
    """What both endpoints count."""

    def __init__(self, metrics: Metrics) -> None:
        self.refused = metrics.counter("refused", "Submits that were refused", "code")
        self.seconds = metrics.seconds("submit", "From a submit's last byte to its answer")


class Single:
    """One job a request."""

    def __init__(self, submits: Submits, *, stream_url: str, most_bytes: int = MAX_BODY_BYTES) -> None:
        self._submits, self._stream_url, self._most_bytes = submits, stream_url, most_bytes
        self._gate: Gate = submits.gate

    async def read(self, receive: Receive, head: Head) -> bytes:
        """Read a body of at most 64 KiB, or a larger one where tensors are taken; those together are bounded."""
        if self._most_bytes <= MAX_BODY_BYTES:
            return await bodies.read(receive, declared=head.length, most_bytes=MAX_BODY_BYTES)
        return await bodies.read_either(
            receive,
            self._gate,
            declared=head.length,
            usual_bytes=MAX_BODY_BYTES,
            most_bytes=self._most_bytes,
        )

    def release(self, body: bytes) -> None:
        """The bytes of a large one are free for others."""
        if len(body) > MAX_BODY_BYTES:
            self._gate.leave(0, len(body))

    def parse(self, body: bytes, head: Head) -> InferRequest:
        """Decode the request, which may have tensors as bytes behind its JSON."""
        binary = head.json_length is not None
        check_headers(head.content_type, head.content_encoding, binary=binary)
        return decode(body) if head.json_length is None else decode_binary(body, head.json_length)

    async def submit(
        self, parsed: InferRequest, caller: Caller, seed: Seed, *, cached: bool
    ) -> tuple[Done, Standing]:
        """Submit the job."""
        birth, standing = await self._submits.one(parsed, caller, seed, cached=cached)
        where = _where(seed.text, birth, self._stream_url)
        return Done(answer=encode(Accepted(**where)), location=where["status_url"]), standing


class Batch:
    """Up to 256 jobs a request; what is wrong with one input is its own alone."""

    def __init__(self, submits: Submits, *, stream_url: str, most_bytes: int = MAX_BATCH_BYTES) -> None:
        self._submits, self._stream_url, self._most_bytes = submits, stream_url, most_bytes
        self._gate: Gate = submits.gate

    async def read(self, receive: Receive, head: Head) -> bytes:
        """Read a body of at most 8 MiB, or more where tensors are taken; all of them together are bounded."""
        return await bodies.read_within(
            receive, self._gate, declared=head.length, most_bytes=self._most_bytes
        )

    def release(self, body: bytes) -> None:
        """Its bytes are free for others."""
        self._gate.leave(0, len(body))

    def parse(self, body: bytes, head: Head) -> Sequence[InferRequest | HttpError]:
        """Decode the requests."""
        check_headers(head.content_type, head.content_encoding)
        if head.json_length is not None:
            raise UnsupportedMediaType(f"{HEADER} is for a single submit: send plain JSON")
        return decode_batch(body)

    async def submit(
        self, parsed: Sequence[InferRequest | HttpError], caller: Caller, seed: Seed, *, cached: bool
    ) -> tuple[Done, Standing]:
        """Submit the jobs."""
        outcomes, standing = await self._submits.many(parsed, caller, seed, cached=cached)
        jobs: list[AcceptedItem | RefusedItem] = []
        first: HttpError | None = None
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Birth):
                jobs.append(
                    AcceptedItem(index=index, **_where(seed.job_id(index), outcome, self._stream_url))
                )
            else:
                first = first or outcome
                jobs.append(RefusedItem(index=index, error=problems.problem(outcome)))
        accepted = sum(isinstance(outcome, Birth) for outcome in outcomes)
        refused = len(outcomes) - accepted
        if not accepted:
            assert first is not None, "there is at least one input"
            if any(isinstance(outcome, TakenBack) for outcome in outcomes):
                raise TakenBack(first.detail)
            fields = msgspec.structs.asdict(problems.problem(first))
            document = BatchRefused(**fields, jobs=jobs, accepted=0, refused=refused)
            unknown = next((one for one in outcomes if isinstance(one, Unavailable)), first)
            raise _NoneAccepted(first, encode(document), decisive=unknown)
        return Done(answer=encode(BatchAnswer(jobs=jobs, accepted=accepted, refused=refused))), standing


class _NoneAccepted(InferqError):
    """No input of a batch became a job: the first refusal, and a document that says what is wrong with each.

    ``decisive`` is the first refusal that leaves open whether there is a job after all, or else the first one.
    """

    def __init__(self, error: HttpError, document: bytes, *, decisive: HttpError) -> None:
        super().__init__(error.detail)
        self.error, self.document, self.decisive = error, document, decisive


def _where(job_id: str, birth: Birth, stream_url: str) -> dict[str, str]:
    return {
        "job_id": job_id,
        "status": status_of(birth),
        "status_url": f"/v1/jobs/{job_id}",
        "stream_url": f"{stream_url}/ws/jobs/{job_id}",
    }


def _add(headers: list[Header], standing: Standing) -> None:
    headers += [(name.lower().encode(), value.encode()) for name, value in standing.headers.items()]
