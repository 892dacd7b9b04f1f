"""What both baselines take in and answer: the type of a submit, and the shape of our 202."""

from typing import Annotated, Final

import msgspec

MAX_TEXT: Final = 2000


class Submit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a submit."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer 202."""

    job_id: str
    status: str
    status_url: str
    stream_url: str


decode: Final = msgspec.json.Decoder(Submit).decode
_encode: Final = msgspec.json.Encoder().encode


def accepted(job_id: str) -> bytes:
    """Return the body of the answer for a job."""
    return _encode(
        Accepted(
            job_id=job_id,
            status="queued",
            status_url=f"/v1/jobs/{job_id}",
            stream_url=f"ws://127.0.0.1:8081/ws/jobs/{job_id}",
        )
    )
