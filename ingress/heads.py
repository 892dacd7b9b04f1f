"""What a submit's header fields say. Pure.

One pass over the fields: looking each of them up by itself costs as much as decoding the body.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from inferq.cachecontrol import wants_cached

# Most fields of most requests are none of these, and would be compared with each.
_KNOWN: Final = frozenset(
    {
        b"content-type",
        b"content-length",
        b"authorization",
        b"content-encoding",
        b"idempotency-key",
        b"inference-header-content-length",
        b"cache-control",
        b"prefer",
    }
)


class Head(msgspec.Struct, kw_only=True, gc=False):
    """The fields that matter to a submit, the last of each; ``repeated`` says that `Authorization` came several times.

    ``idempotent`` says that there is an `Idempotency-Key`, ``cached`` whether a cached answer will do, ``prefer`` what
    is preferred, ``json_length`` how much of the body is JSON where tensors follow it.
    """

    content_type: bytes | None = None
    content_encoding: bytes | None = None
    length: bytes = b"0"
    authorization: bytes | None = None
    repeated: bool = False
    idempotent: bool = False
    cached: bool = True
    prefer: bytes | None = None
    json_length: bytes | None = None


def head_of(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read the header fields of a request; names are in lower case, as ASGI hands them over."""
    head = Head()
    for name, value in headers:
        if name not in _KNOWN:
            continue
        if name == b"content-type":
            head.content_type = value
        elif name == b"content-length":
            head.length = value
        elif name == b"authorization":
            head.repeated = head.authorization is not None
            head.authorization = value
        elif name == b"content-encoding":
            head.content_encoding = value
        elif name == b"idempotency-key":
            head.idempotent = True
        elif name == b"inference-header-content-length":
            head.json_length = value
        elif name == b"cache-control":
            # It may come several times (RFC 9110, 5.3).
            head.cached = head.cached and wants_cached(value)
        else:
            # `Prefer`, which may too.
            head.prefer = value if head.prefer is None else head.prefer + b"," + value
    return head
