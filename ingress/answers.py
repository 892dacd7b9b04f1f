"""What the submit endpoints answer, and how it is sent."""

from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.types import Send

from inferq import problems
from inferq.errors import HttpError

Header = tuple[bytes, bytes]

_JSON: Final = (b"content-type", b"application/json")
_PROBLEM: Final = (b"content-type", problems.MEDIA_TYPE.encode())
_NO_STORE: Final = (b"cache-control", b"no-store")
REPLAYED: Final = (b"idempotent-replayed", b"true")


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """Answer 202 to `POST /v1/infer`: the job, where to poll it, and where its result is pushed."""

    job_id: str
    status: str
    status_url: str
    stream_url: str


class AcceptedItem(Accepted, frozen=True, kw_only=True):
    """A job of a batch submit; ``index`` is its input's."""

    index: int


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a batch submit that did not become a job, and why."""

    index: int
    error: problems.Problem


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer 202 to `POST /v1/infer/batch`: one entry for each input, in their order."""

    jobs: list[AcceptedItem | RefusedItem]
    accepted: int
    refused: int


class BatchRefused(problems.Problem, frozen=True, kw_only=True):
    """Answer to a batch submit of which nothing became a job: the first refusal, and what is wrong with each input."""

    jobs: list[AcceptedItem | RefusedItem]
    accepted: int
    refused: int


encode = msgspec.json.Encoder().encode


async def send_accepted(send: Send, body: bytes, headers: Iterable[Header]) -> None:
    """Send an answer 202."""
    await _send(send, 202, body, [_JSON, *headers])


async def send_record(send: Send, record: bytes, location: str, headers: Iterable[Header]) -> None:
    """Send the final record of a job that was waited for; it is not what the request names, but what is there."""
    others = [field for field in headers if field[0] != b"location"]
    await _send(send, 200, record, [_JSON, _NO_STORE, (b"content-location", location.encode()), *others])


async def send_problem(send: Send, error: HttpError, body: bytes | None = None) -> None:
    """Send the answer to an error; ``body`` is its document where it says more than the error alone."""
    document = problems.of(error) if body is None else body
    named = [(name.lower().encode(), value.encode("latin-1")) for name, value in error.headers.items()]
    await _send(send, error.status, document, [_PROBLEM, *named])


async def _send(send: Send, status: int, body: bytes, headers: list[Header]) -> None:
    # Without starlette's Response, which costs more than all checks of a submit together.
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
