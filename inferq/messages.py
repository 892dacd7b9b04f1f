"""What travels: the queue message, the dead letter and the event.

A queue message carries the whole job, so that a lost record can be rebuilt from it. Each form opens with its
version; a reader refuses a version it does not know instead of guessing. A job of tensors has a version of its own, and
so has a pair of texts, so that a reader who knows single texts alone does not take the one for an empty text, or run
half of the other.

An event is one header line, `version type job_id seq`, and the record as JSON after it. Who forwards the record
need not decode it.
"""

import base64
import re
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from inferq.errors import Undecodable
from inferq.jobs import ErrorCode, Job, Priority, Status
from inferq.tensors.tensor import MAX_NAME, Tensor, TensorError, check_bytes
from inferq.webhooks.url import MAX_URL

VERSION = 1
TENSOR_VERSION: Final = 2
PAIR_VERSION: Final = 3

# The end of the year 9999, the last that a record can show.
LAST_MS: Final = 253_402_300_799_999
# The longest name of an API key.
MAX_OWNER: Final = 64

# The id becomes part of keys, of events and of JSON put together by hand, so nothing may need escaping there.
_JobId = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_.:-]{1,100}\Z")]
_Time = Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
_Decoded = TypeVar("_Decoded")


class _Version(msgspec.Struct):
    v: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Id(msgspec.Struct):
    job_id: _JobId


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    v: int
    job_id: _JobId
    model: str
    # As the version says: one of them, or a text and its pair.
    text: str | msgspec.UnsetType = msgspec.UNSET
    inputs: Annotated[list[Tensor], msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    text_pair: Annotated[str, msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    created_ms: _Time
    priority: Priority = Priority.INTERACTIVE
    deadline_ms: _Time | None = None
    # Written only where they are not as usual: readers that do not know them yet run the job, and most messages lack
    # them.
    cache: bool | msgspec.UnsetType = msgspec.UNSET
    owner: Annotated[str, msgspec.Meta(max_length=MAX_OWNER)] | msgspec.UnsetType = msgspec.UNSET
    counted: bool | msgspec.UnsetType = msgspec.UNSET
    webhook: Annotated[str, msgspec.Meta(max_length=MAX_URL)] | msgspec.UnsetType = msgspec.UNSET


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was given up: why, after what, and its message, to look at or to replay.

    ``message`` is the queue message as text, or base64 of it where it is not UTF-8 (``encoding`` says which).
    ``history`` holds one entry for each attempt that was charged to the job.
    """

    v: int = VERSION
    job_id: str
    reason: ErrorCode
    detail: str
    queue: str
    attempt: int
    died_ms: int
    batcher: str
    history: list[dict[str, Any]] = []
    encoding: Literal["utf-8", "base64"] = "utf-8"
    message: str

    @property
    def body(self) -> bytes:
        """The queue message as it was."""
        return (
            self.message.encode()
            if self.encoding == "utf-8"
            else base64.b64decode(self.message, validate=True)
        )


class Delivery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One message in a batcher's hands; ``token`` is the broker's own."""

    queue: str
    body: bytes
    redelivered: bool
    token: Any

    def __repr__(self) -> str:
        # Neither what a caller sent nor the broker's own object belongs in a log line.
        return f"Delivery(queue={self.queue!r}, redelivered={self.redelivered})"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one record; ``record`` is the whole record as JSON after the change."""

    job_id: str
    seq: int
    type: str
    record: bytes

    @property
    def status(self) -> Status:
        """The record's status after the change."""
        return Status(self.type.removeprefix("job."))


# What each version must have besides the rest.
_NEEDED: Final[dict[int, tuple[str, ...]]] = {
    VERSION: ("text",),
    TENSOR_VERSION: ("inputs",),
    PAIR_VERSION: ("text", "text_pair"),
}
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.json.Encoder()
_message_decoder = msgspec.json.Decoder(_Message)
_version_decoder = msgspec.json.Decoder(_Version)
_id_decoder = msgspec.json.Decoder(_Id)
_dead_decoder = msgspec.json.Decoder(DeadLetter)
_EVENT_TYPES = frozenset(f"job.{status}" for status in Status)
_ENUM_VALUE = re.compile(r"^(Invalid enum value) .*(?= - at `)", re.DOTALL)


def encode_job(job: Job) -> bytes:
    """Encode a queue message."""
    return _encoder.encode(
        _Message(
            v=TENSOR_VERSION if job.inputs else PAIR_VERSION if job.text_pair else VERSION,
            job_id=job.job_id,
            model=job.model,
            text=msgspec.UNSET if job.inputs else job.text,
            inputs=list(job.inputs) or msgspec.UNSET,
            text_pair=job.text_pair or msgspec.UNSET,
            created_ms=job.created_ms,
            priority=job.priority,
            deadline_ms=job.deadline_ms,
            cache=msgspec.UNSET if job.cache else False,
            owner=job.owner or msgspec.UNSET,
            counted=job.counted or msgspec.UNSET,
            webhook=job.webhook or msgspec.UNSET,
        )
    )


def decode_job(body: bytes) -> Job:
    """Decode a queue message.

    Raises:
        Undecodable: it is no JSON object of this version; the reason names the field, never its content.
    """
    try:
        message: _Message | None = _message_decoder.decode(body)
    except _UNREADABLE:
        message = None
    if message is None or message.v not in _NEEDED:
        # To say why: the version comes first, since another one may have other fields.
        head = _decode(_version_decoder, body, "queue message")
        if head.v not in _NEEDED:
            understood = f"{VERSION} to {PAIR_VERSION}"
            raise Undecodable(f"version {head.v} of the queue message is not understood, only {understood}")
        message = _decode(_message_decoder, body, "queue message")
    for wanted in _NEEDED[message.v]:
        if getattr(message, wanted) is msgspec.UNSET:
            raise Undecodable(f"not a queue message: Object missing required field `{wanted}`")
    return Job(
        job_id=message.job_id,
        model=message.model,
        text=message.text if message.v != TENSOR_VERSION and message.text else "",
        text_pair=message.text_pair if message.v == PAIR_VERSION and message.text_pair else "",
        created_ms=message.created_ms,
        priority=message.priority,
        deadline_ms=message.deadline_ms,
        inputs=_checked(message.inputs) if message.v == TENSOR_VERSION and message.inputs else (),
        cache=message.cache is not False,
        owner=message.owner or "",
        counted=message.counted is True,
        webhook=message.webhook or "",
    )


def _checked(inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Return tensors whose bytes are as their shapes say; raises `Undecodable`."""
    for index, tensor in enumerate(inputs):
        try:
            if not 1 <= len(tensor.name) <= MAX_NAME:
                raise TensorError(f"must have a name of 1 to {MAX_NAME} characters")
            check_bytes(tensor)
        except TensorError as error:
            raise Undecodable(f"not a queue message: input {index} {error.detail}") from None
    return tuple(inputs)


def job_id_of(body: bytes) -> str | None:
    """Read the job id out of a message that may be unreadable otherwise; None when there is none."""
    try:
        return _decode(_id_decoder, body, "queue message").job_id
    except Undecodable:
        return None


def dead_letter(
    body: bytes,
    *,
    job_id: str,
    reason: ErrorCode,
    detail: str,
    queue: str,
    attempt: int,
    died_ms: int,
    batcher: str,
    history: list[dict[str, Any]],
) -> DeadLetter:
    """Wrap a queue message as a dead letter."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        message = body.decode()
    except UnicodeDecodeError:
        encoding, message = "base64", base64.b64encode(body).decode()
    return DeadLetter(
        job_id=job_id,
        reason=reason,
        detail=detail,
        queue=queue,
        attempt=attempt,
        died_ms=died_ms,
        batcher=batcher,
        history=history,
        encoding=encoding,
        message=message,
    )


def encode_dead(letter: DeadLetter) -> bytes:
    """Encode a dead letter."""
    return _encoder.encode(letter)


def decode_dead(body: bytes) -> DeadLetter:
    """Decode a dead letter.

    Raises:
        Undecodable: it is none of this version, or the message in it cannot be had back.
    """
    head = _decode(_version_decoder, body, "dead letter")
    if head.v != VERSION:
        raise Undecodable(f"version {head.v} of the dead letter is not understood, only {VERSION}")
    letter = _decode(_dead_decoder, body, "dead letter")
    try:
        _ = letter.body
    except ValueError:
        raise Undecodable("not a dead letter: its message is no base64") from None
    return letter


def decode_event(payload: bytes) -> Event:
    """Decode an event without decoding its record.

    Raises:
        Undecodable: the header line is not one of this version, or its type is unknown.
    """
    head, _, record = payload.partition(b"\n")
    try:
        version, kind, job_id, seq = head.decode("ascii").split(" ")
        event = Event(job_id=job_id, seq=int(seq), type=kind, record=record)
    except ValueError:
        raise Undecodable("not an event") from None
    if version != str(VERSION):
        raise Undecodable(f"version {version[:20]} of the event is not understood, only {VERSION}")
    if kind not in _EVENT_TYPES:
        raise Undecodable("an event of an unknown type")
    return event


def _decode(decoder: msgspec.json.Decoder[_Decoded], body: bytes, what: str) -> _Decoded:
    try:
        return decoder.decode(body)
    except _UNREADABLE as error:
        # msgspec quotes nothing of a message but an unknown enum value, and that may be anything.
        raise Undecodable(f"not a {what}: " + _ENUM_VALUE.sub(r"\1", str(error))) from None
