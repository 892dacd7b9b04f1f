"""What a client may say on `/ws`. Pure.

Strict: an unknown field, a wrong type or more than a limit allows is refused, with a text that names the field and the
limit and quotes nothing of the message: a key may stand anywhere in it.
"""

import re
from typing import Annotated, Final

import msgspec

MOST_JOB_IDS: Final = 5000
"""Jobs in one message."""
LONGEST_JOB_ID: Final = 100
LONGEST_KEY: Final = 255

_JobId = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_JOB_ID)]
_JobIds = Annotated[list[_JobId], msgspec.Meta(min_length=1, max_length=MOST_JOB_IDS)]
_Seq = Annotated[int, msgspec.Meta(ge=0)]
_After = Annotated[dict[_JobId, _Seq], msgspec.Meta(max_length=MOST_JOB_IDS)]

_JOB_ID: Final = re.compile(r"[A-Za-z0-9_.:-]+")


class Subscribe(
    msgspec.Struct, frozen=True, tag_field="action", tag="subscribe", forbid_unknown_fields=True, gc=False
):
    """Watch jobs; ``after`` is the `seq` that was seen last of some of them."""

    job_ids: _JobIds
    after: _After = {}


class Unsubscribe(
    msgspec.Struct, frozen=True, tag_field="action", tag="unsubscribe", forbid_unknown_fields=True, gc=False
):
    """Watch jobs no more."""

    job_ids: _JobIds


class Auth(msgspec.Struct, frozen=True, tag_field="action", tag="auth", forbid_unknown_fields=True, gc=False):
    """Give an API key, which browsers cannot send in a header."""

    key: Annotated[str, msgspec.Meta(max_length=LONGEST_KEY)]

    def __repr__(self) -> str:
        return "Auth(key=…)"


ClientMessage = Subscribe | Unsubscribe | Auth
_decoder: Final = msgspec.json.Decoder(ClientMessage)


class BadMessage(Exception):
    """It is none of these; the text says what is wrong."""


def decode_client_message(text: bytes | bytearray | memoryview) -> ClientMessage:
    """Decode a text message.

    Raises:
        BadMessage: it is not one of these.
    """
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise BadMessage(_explained(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadMessage("the message is not JSON") from None


def could_be_a_job(job_id: str) -> bool:
    """Say whether an id has the form of one; there is no other job."""
    return _JOB_ID.fullmatch(job_id) is not None


def _explained(text: str) -> str:
    if text.startswith("Object contains unknown field"):
        return "unknown field: a message has action and job_ids, after or key"
    if "Invalid value" in text or "action`" in text:
        return "`action` must be subscribe, unsubscribe or auth"
    return text
