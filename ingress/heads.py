"""What a submit's header fields say. Pure.

One pass over the fields: looking each of them up by itself costs as much as decoding the body.
"""

from collections.abc import Iterable

import msgspec

from ingress.requests import wants_cached


class Head(msgspec.Struct, kw_only=True, gc=False):
    """The fields that matter to a submit, as they came; ``repeated`` names those of them that came more than once."""

    content_type: bytes | None = None
    content_encoding: bytes | None = None
    length: bytes = b"0"
    authorization: bytes | None = None
    idempotency_key: bytes | None = None
    cached: bool = True
    repeated: tuple[bytes, ...] = ()


_FIELDS = {
    b"content-type": "content_type",
    b"content-encoding": "content_encoding",
    b"content-length": "length",
    b"authorization": "authorization",
    b"idempotency-key": "idempotency_key",
}


def head_of(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read the header fields of a request; names are in lower case, as ASGI hands them over."""
    head = Head()
    seen: set[bytes] = set()
    for name, value in headers:
        field = _FIELDS.get(name)
        if field is not None:
            if name in seen:
                head.repeated = (*head.repeated, name)
            seen.add(name)
            setattr(head, field, value)
        elif name == b"cache-control" and head.cached:
            head.cached = wants_cached(value)
    return head
