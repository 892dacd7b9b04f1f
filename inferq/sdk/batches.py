"""How texts are put together to requests: bodies, and batches of them. Pure.

A batch holds at most 256 inputs, and fewer where their bytes would be too many together. What is larger than any
request may be is refused here: the API hangs up on such a body, which cannot be told from a connection that broke.
"""

import json
from math import isfinite
from typing import Any, Final

import msgspec

from inferq.sdk.errors import BadRequest

MOST_INPUTS: Final = 256
# Half of what the API takes.
MOST_BYTES: Final = 4 * 1024 * 1024
# What the API takes of one text with all that is asked for it.
MOST_BODY_BYTES: Final = 64 * 1024
_LONGEST_KEY: Final = 255

_encode = msgspec.json.Encoder().encode

Text = str | tuple[str, str]
"""A text, or a pair of them."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for besides the text; None leaves it to the deployment."""

    model: str | None = None
    deadline_ms: int | None = None
    priority: str | None = None
    webhook: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a body that are given."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


def paired(text: str, text_pair: str | None) -> Text:
    """Return a text alone, or with its pair."""
    return text if text_pair is None else (text, text_pair)


def body_of(text: Text, fields: dict[str, Any]) -> bytes:
    """Return the body of a submit.

    Raises:
        TypeError: the text is no string, and no pair of strings.
        BadRequest: the body is larger than the API takes, or a number is none.
    """
    given = {"text": text} if isinstance(text, str) else _pair(text)
    for name, value in fields.items():
        # JSON has neither, and null in its place would mean that nothing was asked for.
        if isinstance(value, float) and not isfinite(value):
            raise BadRequest("invalid_request", f"{name} must be a finite number", status=400)
    body = {**given, **fields}
    try:
        encoded = _encode(body)
    except UnicodeEncodeError:
        # Half a character: the API shall judge it, as everything else.
        encoded = json.dumps(body).encode()
    if len(encoded) > MOST_BODY_BYTES:
        detail = f"the text makes a request of more than {MOST_BODY_BYTES:,} bytes"
        raise BadRequest("body_too_large", detail, status=413)
    return encoded


def _pair(text: Any) -> dict[str, Any]:
    match text:
        case (str() as first, str() as second):
            return {"text": first, "text_pair": second}
    raise TypeError(f"a text must be a string or a pair of strings, not {type(text).__name__}")


def join(bodies: list[bytes]) -> bytes:
    """Return the body of a batch."""
    return b'{"inputs":[' + b",".join(bodies) + b"]}"


class Batch:
    """A batch in the making."""

    def __init__(self) -> None:
        self.bodies: list[bytes | BadRequest] = []
        self._bytes = 0

    def takes(self, body: bytes | BadRequest) -> bool:
        """Say whether there is room for one more; what is refused already keeps its place and has no bytes."""
        return len(self.bodies) < MOST_INPUTS and self._bytes + _size(body) <= MOST_BYTES

    def add(self, body: bytes | BadRequest) -> None:
        """Take one more."""
        self.bodies.append(body)
        self._bytes += _size(body)


def _size(body: bytes | BadRequest) -> int:
    return len(body) + 1 if isinstance(body, bytes) else 0


def check_key(key: str, *, many: bool = False) -> str:
    """Return an idempotency key that can be sent; that of many leaves room for what is put behind it.

    Raises:
        ValueError: it has too many characters, or other ones than visible ASCII.
    """
    most = _LONGEST_KEY - len(key_of("", 10**9, 10**6)) if many else _LONGEST_KEY
    if not 1 <= len(key) <= most or not all("!" <= character <= "~" for character in key):
        raise ValueError(f"idempotency_key must have 1 to {most} visible ASCII characters")
    return key


def key_of(key: str, number: int, tries: int) -> str:
    """Return the key of a batch by its number; inputs that are sent anew are another request, and need another."""
    return f"{key}.{number}" if tries == 0 else f"{key}.{number}.{tries}"
