"""How the API's answers are read: to jobs, to errors, and to what may be tried again. Pure.

An answer that is none of the API's, such as a proxy's page, becomes an error too, never a crash.
"""

import re
from typing import Final

import msgspec

from inferq.errors import FieldError
from inferq.jobs import Status
from inferq.sdk.errors import RequestRefused, refusal
from inferq.sdk.shapes import Job

# A submit under an idempotency key may be repeated after any of these: it was not taken, or the key finds it again.
RETRIED: Final = frozenset({408, 429, 502, 503, 504})
# Refusals that are the same for every input.
OF_THE_KEY: Final = frozenset({401, 403})
LONGEST_RETRY_AFTER_S: Final = 30.0
_LONGEST_DETAIL: Final = 500


class _Fault(msgspec.Struct):
    pointer: str = ""
    detail: str = ""


class _Problem(msgspec.Struct):
    status: int = 0
    code: str = "refused"
    detail: str = ""
    errors: list[_Fault] = []


class _Accepted(msgspec.Struct):
    job_id: str
    stream_url: str
    status_url: str = ""
    status: Status = Status.QUEUED


class _Item(msgspec.Struct):
    index: int = -1
    job_id: str | None = None
    status: Status = Status.QUEUED
    status_url: str = ""
    stream_url: str = ""
    error: _Problem | None = None


class _Server(msgspec.Struct):
    host: str = ""
    protocol: str = ""
    pathname: str = ""


class _Description(msgspec.Struct):
    servers: dict[str, _Server] = {}


class _Batch(msgspec.Struct):
    jobs: list[_Item]


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PLACE: Final = re.compile(r"^/inputs/\d+")
_accepted = msgspec.json.Decoder(_Accepted)
_batch = msgspec.json.Decoder(_Batch)
_description = msgspec.json.Decoder(_Description)
_problem = msgspec.json.Decoder(_Problem)


def refused(
    status: int, body: bytes, *, retry_after: str | None = None, job_id: str | None = None
) -> RequestRefused:
    """Return the error of an answer; ``retry_after`` is that header field."""
    try:
        problem = _problem.decode(body)
    except _UNREADABLE:
        problem = _Problem()
    return _error(problem, status, retry_after_s(retry_after), job_id)


def accepted(status: int, body: bytes) -> Job:
    """Read the answer to a submit; raises `ServerFault` when it is none."""
    try:
        answer = _accepted.decode(body)
    except _UNREADABLE:
        raise unreadable(status) from None
    return Job(
        job_id=answer.job_id,
        status=answer.status,
        status_url=answer.status_url,
        stream_url=answer.stream_url,
    )


def batch(body: bytes, inputs: int, *, retry_after: str | None = None) -> list[Job | RequestRefused] | None:
    """Read what became of each input of a batch; None when the answer does not speak of each."""
    try:
        items = _batch.decode(body).jobs
    except _UNREADABLE:
        return None
    if [item.index for item in items] != list(range(inputs)):
        return None
    outcomes: list[Job | RequestRefused] = []
    for item in items:
        if item.error is not None:
            # To its caller, an input is no part of a batch.
            for fault in item.error.errors:
                fault.pointer = _PLACE.sub("", fault.pointer)
            outcomes.append(_error(item.error, item.error.status, retry_after_s(retry_after), None))
        elif item.job_id is not None:
            outcomes.append(
                Job(
                    job_id=item.job_id,
                    status=item.status,
                    status_url=item.status_url,
                    stream_url=item.stream_url,
                )
            )
        else:
            return None
    return outcomes


def pushes_at(body: bytes) -> str | None:
    """Return where the first WebSocket server of an AsyncAPI description is; None when it names none."""
    try:
        servers = _description.decode(body).servers
    except _UNREADABLE:
        return None
    for server in servers.values():
        if server.protocol in {"ws", "wss"} and server.host:
            return f"{server.protocol}://{server.host}{server.pathname.rstrip('/')}"
    return None


def unreadable(status: int) -> RequestRefused:
    """Return the error of an answer that is none of the API's."""
    # Whatever its status said, who answered so is not the API.
    return refusal(
        status if status >= 500 else 502, "not_the_api", f"the answer {status} is not one of the API"
    )


def retry_after_s(text: str | None) -> float:
    """Return the seconds that a `Retry-After` asks for, at most 30; 0 where it gives none."""
    # Counted first: the longest numbers take long to read.
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 10):
        return 0.0
    return min(float(text), LONGEST_RETRY_AFTER_S)


def _error(problem: _Problem, status: int, after_s: float, job_id: str | None) -> RequestRefused:
    faults = [FieldError(pointer=fault.pointer, detail=fault.detail) for fault in problem.errors]
    named = "; ".join(f"{fault.pointer} {fault.detail}".strip() for fault in faults)
    return refusal(
        status,
        problem.code,
        (named or problem.detail or f"the server answered {status}")[:_LONGEST_DETAIL],
        errors=faults,
        retry_after_s=after_s,
        job_id=job_id,
    )
