"""Server-Sent Events of one job, over a raw connection of its own."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from inferq.ports import LOOPBACK
from loadgen.pushed import Pushed, decode

MAX_LINE_BYTES: Final = 1024 * 1024
_OK: Final = b"HTTP/1.1 200 "
_DATA: Final = b"data:"


async def followed(url: str, job_id: str, *, key: str = "") -> Pushed | None:
    """Follow a job until the server ends the stream; return the last frame, or None where there was none.

    Raises:
        ConnectionError, OSError: the server is not there, or refused.
    """
    parts = urlsplit(url)
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    reader, writer = await asyncio.open_connection(
        parts.hostname or LOOPBACK, parts.port or 80, limit=MAX_LINE_BYTES
    )
    try:
        writer.write(
            (
                f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/event-stream\r\n"
                f"{authorization}Connection: close\r\n\r\n"
            ).encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(_OK):
            raise ConnectionError("the server refused the stream")
        last = None
        # Sizes of chunks stand on lines of their own between the events, and none of them looks like data.
        while line := await reader.readline():
            if line.startswith(_DATA):
                last = decode(line.removeprefix(_DATA))
        return last
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise ConnectionError("the stream ended early, or is none") from error
    finally:
        writer.close()
