"""One pushed record over a raw WebSocket (RFC 6455).

A full client costs more for each connection than the server under test, on the same two cores; all that is needed here
is a handshake, one unfragmented text frame, and a close.
"""

import asyncio
import base64
import os
from typing import Final
from urllib.parse import urlsplit

MAX_RECORD_BYTES: Final = 1024 * 1024
_TEXT_FINAL: Final = 0x81
_CLOSE_FINAL: Final = 0x88
_PING_FINAL: Final = 0x89
_CLOSE_NORMALLY: Final = bytes((_CLOSE_FINAL, 0x82, 0, 0, 0, 0, 0x03, 0xE8))


async def pushed(url: str, *, key: str = "") -> bytes:
    """Connect to a job's stream, with an API key if there is one, and return the record that is pushed, as JSON.

    Raises:
        ConnectionError: the server refused, closed without a record, or does not speak WebSocket.
    """
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=MAX_RECORD_BYTES)
    try:
        nonce = base64.b64encode(os.urandom(16)).decode()
        authorization = f"Authorization: Bearer {key}\r\n" if key else ""
        writer.write(
            (
                f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n{authorization}"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\n\r\n"
            ).encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            raise ConnectionError("the server refused the WebSocket")
        record = await _record(reader)
        writer.write(_CLOSE_NORMALLY)
        return record
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("the connection ended before the record") from error
    finally:
        writer.close()


async def _record(reader: asyncio.StreamReader) -> bytes:
    while True:
        kind, length = await reader.readexactly(2)
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        elif length == 127:
            length = int.from_bytes(await reader.readexactly(8), "big")
        if length > MAX_RECORD_BYTES:
            raise ConnectionError("a frame larger than any record")
        payload = await reader.readexactly(length)
        if kind == _TEXT_FINAL:
            return payload
        if kind == _CLOSE_FINAL:
            raise ConnectionError(f"closed with {int.from_bytes(payload[:2], 'big')} before the record")
        if kind != _PING_FINAL:
            raise ConnectionError("a frame that no notifier sends")
