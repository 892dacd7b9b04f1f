"""A persistent message as the bytes that publish it: a method, a header, and as many bodies as its size asks for.

Nearly all of it is the same for every message of a queue, and is put together once.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from inferq.broker.sieve import BASIC, BODY, END, HEADER, METHOD

CONTENT_TYPE: Final = b"application/json"
# A frame's own octets: seven before its payload and one after it.
FRAME_OCTETS: Final = 8

_HEAD: Final = Struct(">BHI")
# Frame's head; class, weight, size of the body, and which properties follow.
_HEADER: Final = Struct(">BHIHHQH")
_HEADER_OCTETS: Final = 14
_PUBLISH: Final = 40
_MANDATORY: Final = 1
# Content type, headers (none), delivery mode (persistent), priority (0), message id: the last one varies.
_FLAGS: Final = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 11 | 1 << 7
_PERSISTENT: Final = 2
_PROPERTIES: Final = bytes([len(CONTENT_TYPE)]) + CONTENT_TYPE + bytes(4) + bytes([_PERSISTENT, 0])
_FIXED: Final = _HEADER_OCTETS + len(_PROPERTIES) + 1
_ENDED: Final = bytes([END])
# Bits of the properties that may stand before a message id: a table, octets, short strings else.
_ID: Final = 7
_TABLE: Final = 13
_OCTETS: Final = (12, 11)
_CONTENT: Final = Struct(">HHQH")
_TABLE_OCTETS: Final = Struct(">I")
_CALL: Final = Struct(">HHH")


def publish_frames(
    channel: int, frame_max: int, exchange: str, queue: str, message_id: bytes, body: bytes
) -> bytes:
    """Make all frames of one publish, mandatory and persistent.

    ``frame_max`` is the most octets of a frame, 0 where nothing is agreed.

    Raises:
        ValueError: a name or the id has more than 255 bytes.
    """
    size = len(body)
    header = _HEADER.pack(HEADER, channel, _FIXED + len(message_id), BASIC, 0, size, _FLAGS)
    parts = [
        _method(channel, exchange, queue),
        header,
        _PROPERTIES,
        bytes((len(message_id),)),
        message_id,
        _ENDED,
    ]
    most = frame_max - FRAME_OCTETS if frame_max else size or 1
    for at in range(0, size, most):
        part = body[at : at + most]
        parts += (_HEAD.pack(BODY, channel, len(part)), part, _ENDED)
    return b"".join(parts)


def id_of(header: bytes) -> bytes:
    """Find the message id in the payload of a header's frame; empty when there is none.

    Raises:
        IndexError or struct.error: it is no such payload.
    """
    _, _, _, flags = _CONTENT.unpack_from(header)
    if not flags >> _ID & 1:
        return b""
    at = _HEADER_OCTETS
    for bit in range(15, _ID, -1):
        if not flags >> bit & 1:
            continue
        if bit == _TABLE:
            at += 4 + int(_TABLE_OCTETS.unpack_from(header, at)[0])
        elif bit in _OCTETS:
            at += 1
        else:
            at += 1 + header[at]
    return header[at + 1 : at + 1 + header[at]]


@lru_cache(maxsize=256)
def _method(channel: int, exchange: str, queue: str) -> bytes:
    names = b"".join(bytes([len(name)]) + name for name in (exchange.encode(), queue.encode()))
    payload = _CALL.pack(BASIC, _PUBLISH, 0) + names + bytes([_MANDATORY])
    return _HEAD.pack(METHOD, channel, len(payload)) + payload + _ENDED
