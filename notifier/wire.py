"""A message as it goes out on a WebSocket: its header and its text. Pure.

A server's frames are not masked (RFC 6455, section 5.1), so the same bytes serve every connection: they are made once,
whoever they are sent to.
"""

from typing import Final

_TEXT: Final = 0x81  # a text frame that is the whole message
_SHORT: Final = 125
_MIDDLE: Final = 0xFFFF


def text_message(text: bytes) -> bytes:
    """Return a text message with its header; ``text`` is UTF-8."""
    length = len(text)
    if length <= _SHORT:
        return bytes((_TEXT, length)) + text
    if length <= _MIDDLE:
        return b"\x81\x7e" + length.to_bytes(2, "big") + text
    return b"\x81\x7f" + length.to_bytes(8, "big") + text
