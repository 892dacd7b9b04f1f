"""Which bodies are read at all. Pure."""

from inferq.errors import UnsupportedMediaType


def check_headers(
    content_type: bytes | None, content_encoding: bytes | None, *, binary: bool = False
) -> None:
    """Refuse bodies that are not plain JSON; no `Content-Type` counts as JSON. With ``binary`` bytes may follow it.

    Raises:
        UnsupportedMediaType: the body is something else, or encoded.
    """
    if content_encoding is not None:
        raise UnsupportedMediaType("Content-Encoding is not understood: send plain JSON")
    if content_type is None:
        return
    media_type = content_type.partition(b";")[0].strip().lower()
    if media_type != b"application/json" and not (binary and media_type == b"application/octet-stream"):
        raise UnsupportedMediaType("Content-Type must be application/json")
