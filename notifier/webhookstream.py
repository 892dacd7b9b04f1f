"""What a receiver may send in answer to one request, so that nobody can keep this process busy with reading.

An answer's status and a field of its head is all that counts, but a receiver may precede it with any number of interim
answers, which cost far more to read than to send. The reads are short, and others have their turn between two of them.
"""

import asyncio
import ssl
from typing import Any, Final

import httpcore

MOST_ANSWER_BYTES: Final = 32 * 1024
READ_BYTES: Final = 4096


class MeteredStream(httpcore.AsyncNetworkStream):
    """A connection on which at most ``most_bytes`` are read after something was written; then reads fail."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, *, most_bytes: int = MOST_ANSWER_BYTES) -> None:
        self._stream, self._most_bytes = stream, most_bytes
        self._left_bytes = most_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # httpcore's own
        """Read a little; raises `httpcore.ReadError` when the answer is too long, or what the connection raises."""
        if self._left_bytes <= 0:
            raise httpcore.ReadError("the answer is too long")
        data = await self._stream.read(min(max_bytes, READ_BYTES), timeout)
        self._left_bytes -= len(data)
        # TLS hands out what it has without giving way to anybody.
        await asyncio.sleep(0)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # httpcore's own
        """Write; what is read from now on is another answer."""
        self._left_bytes = self._most_bytes
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own
    ) -> httpcore.AsyncNetworkStream:
        """Return the connection with TLS on it, metered in the same way."""
        inner = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return MeteredStream(inner, most_bytes=self._most_bytes)

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        return self._stream.get_extra_info(info)
