"""What an idempotency key is: the header that it comes in, and the names and marks made of it. Pure.

A key counts for one caller and one endpoint. All three are hashed as one JSON array, so that no two parts can run into
each other; it opens with a version, which is raised when the parts change or the kept value does. The body's mark
tells a repeat from another request under the same key. It is made of the bytes as they came: a client that repeats
sends the same ones.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from inferq.errors import FieldError, InvalidRequest

VERSION: Final = 1
MAX_KEY: Final = 255

_KEY: Final = re.compile(rb"[\x21-\x7e]{1,255}")
_REFUSAL: Final = (
    f"the header Idempotency-Key must be given once and have 1 to {MAX_KEY} visible ASCII characters"
)

_encode = msgspec.json.Encoder().encode


def idempotency_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key of a request; None when it has none.

    Names are in lower case, as ASGI hands them over; white space around the value is none of it (RFC 9110, 5.5).

    Raises:
        InvalidRequest: the header came several times, or its value is not 1 to 255 visible ASCII characters.
    """
    given = [value.strip(b" \t") for name, value in headers if name == b"idempotency-key"]
    if not given:
        return None
    if len(given) > 1 or _KEY.fullmatch(given[0]) is None:
        raise InvalidRequest(_REFUSAL, errors=[FieldError(pointer="", detail=_REFUSAL)])
    return given[0]


def digest(*, scope: str, path: str, key: bytes) -> str:
    """Return what a key is kept under, as SHA-256 in hex; ``scope`` names the caller, ``path`` the endpoint."""
    return hashlib.sha256(_encode((VERSION, scope, path, key.decode("ascii")))).hexdigest()


def fingerprint(body: bytes) -> str:
    """Return a body's mark: its SHA-256 in hex."""
    return hashlib.sha256(body).hexdigest()
