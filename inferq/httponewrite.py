"""uvicorn's HTTP protocol with one write for an answer and no timer behind it.

Why our own: uvicorn writes head and body of an answer by themselves, and each write is a call of the kernel; it then
sets a timer for the idle connection, which the next request takes back. Together that is a sixth of what it spends on
a small request, and the client pays for a second read. Here an answer that comes in one piece is written in one piece,
and idle connections are looked at once a second (`inferq.httpdeadlines`).
"""

from typing import Any, Final

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

_BODILESS: Final = frozenset({204, 304})
# A body above this is not copied to be joined to its head: clients who do not take it would each have their own.
MOST_JOINED_BYTES: Final = 64 * 1024


class OneWriteCycle(RequestResponseCycle):
    """One request and its answer; a head waits for what comes next, which usually is the whole body."""

    _head: ASGISendEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """Take a piece of the answer."""
        if self._head is None:
            if message["type"] == "http.response.start" and not self.response_started and not self.access_log:
                self._head = message
            else:
                await super().send(message)
            return
        if message["type"] == "http.response.start":
            # Of an error, in place of an answer that nobody has seen anything of.
            self._head = message
            return
        head, self._head = self._head, None
        if (
            message["type"] == "http.response.body"
            and not message.get("more_body", False)
            and not self.flow.write_paused
            and not self.disconnected
            and self._write_whole(head, message.get("body", b""))
        ):
            return
        # Anything out of the ordinary is uvicorn's.
        await super().send(head)
        await super().send(message)

    def _write_whole(self, head: Any, body: bytes) -> bool:
        """Write an answer at once; False, with nothing done, unless it is an ordinary one."""
        status = head["status"]
        if self.scope["method"] == "HEAD" or status in _BODILESS:
            return False
        fields = [*self.default_headers, *head.get("headers", ())]
        written = _fields(fields, len(body))
        if written is None:
            return False
        if b"connection" in written[::4]:
            self.keep_alive = False
        elif not self.keep_alive:
            written.append(b"connection: close\r\n")
        self.response_started, self.waiting_for_100_continue = True, False
        self.chunked_encoding = False
        first = (STATUS_LINE[status], *written, b"\r\n")
        if len(body) > MOST_JOINED_BYTES:
            self.transport.writelines((b"".join(first), body))
        else:
            self.transport.write(b"".join((*first, body)))
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True


class OneWriteProtocol(HttpToolsProtocol):
    """One connection; ``idle_since_s`` is when its last answer was complete, on the loop's clock."""

    idle_since_s = float("inf")

    def on_headers_complete(self) -> None:
        """Begin a request."""
        super().on_headers_complete()
        if type(self.cycle) is RequestResponseCycle:
            # uvicorn makes it by name. Nothing has run of it yet, and the two differ in how they send alone.
            self.cycle.__class__ = OneWriteCycle

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            self.idle_since_s = self.loop.time()


def _fields(headers: list[tuple[bytes, bytes]], length: int) -> list[bytes] | None:
    """Return header fields as they are written; None where they are not those of a whole body of this length."""
    written: list[bytes] = []
    found = -1
    for name, value in headers:
        name = name.lower()
        if name == b"content-length":
            found = int(value)
        elif name == b"transfer-encoding" or (name == b"connection" and value != b"close"):
            return None
        written += (name, b": ", value, b"\r\n")
    # All at once: a search costs more to begin than to go through all of them.
    if found != length or HEADER_RE.search(b"".join(written[::4])):
        return None
    return None if HEADER_VALUE_RE.search(b"".join(written[2::4])) else written
