"""One WebSocket connection: bytes, frames and deadlines, over the `websockets` library's protocol without its sockets.

The library's own connections have several tasks, futures and queues each. Here an idle client costs one object, its
parser and one timer; nothing waits for a client, so a slow one stops nobody.

- What is written goes to the system at once. What that does not take is at most one batch; until it has, nothing more
  is written, and `stalled` tells when it has taken nothing for long.
- A client that sends much, or much in small frames, is read in small pieces, which wait their turn with those of all
  others that do, so that it costs itself time.
- Each phase has a deadline: handshake, key, an answer to a ping, the close.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from notifier.closes import LOST, TOO_MANY, UNANSWERED
from notifier.pace import Pace
from notifier.patience import STALL_LOOKS, Patience
from notifier.peer import Host, Peer

MAX_MESSAGE_BYTES: Final = 256 * 1024
# A handshake's request line and header fields: the library alone would keep 128 of 8 KiB.
MAX_HEAD_BYTES: Final = 16 * 1024
# Of the answers to its pings a client may leave so much unread.
MAX_UNREAD_BYTES: Final = 64 * 1024

_logger: Final = logging.getLogger("websockets.server")


class Connection(asyncio.BufferedProtocol):
    """A connection of one client; while it is ``open``, messages may be sent and ``peer`` is told what happens."""

    __slots__ = (
        "_binary", "_code", "_head_bytes", "_heard", "_host", "_in_line", "_loop", "_pace", "_parts", "_pongs",
        "_progress_at", "_protocol", "_stall", "_still", "_timer", "_transport", "_unsent", "open", "patience",
        "paused", "peer", "who",
    )  # fmt: skip  # names side by side

    def __init__(self, host: Host, patience: Patience) -> None:
        self._host, self.patience = host, patience
        self._loop = asyncio.get_running_loop()
        self._protocol = ServerProtocol(max_size=MAX_MESSAGE_BYTES, logger=_logger)
        self._transport: asyncio.Transport
        self.peer: Peer | None = None
        self.who: str | None = None
        self.open = False
        self.paused = False
        self._code = 0
        self._heard = True
        self._still = False
        self._in_line = False
        self._pace = Pace()
        self._head_bytes = 0
        self._pongs = 0
        self._binary = False
        self._parts: bytearray | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._progress_at = 0.0

    @property
    def code(self) -> int:
        """With which code it was closed."""
        return self._code or LOST

    def accept(self, request: Request) -> bool:
        """Answer a handshake; say whether it is open now."""
        self.respond(self._protocol.accept(request))
        return self.open

    def respond(self, response: Response) -> None:
        """Answer a request; any answer but an acceptance ends the connection."""
        if self._protocol.state is not State.CONNECTING or self._protocol.eof_sent:
            self.abort()
            return
        self._protocol.send_response(response)
        self._send()
        self.open = response.status_code == 101
        if self.open:
            self.due(self.patience.ping_every_s, self._ping)
        else:
            self.due(self.patience.close_s, self.abort)

    def due(self, delay_s: float, what: Callable[[], Any]) -> None:
        """Have something done at the end of this phase, unless another begins before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, what)

    def stay(self) -> None:
        """Keep it open from now on, for as long as the client answers pings."""
        self.due(self.patience.ping_every_s, self._ping)

    def write(self, data: bytes) -> None:
        """Write messages as they go out."""
        self._transport.write(data)

    def close(self, code: int, reason: str, last: bytes = b"") -> None:
        """Close, after a ``last`` message; a client that does not answer is cut off."""
        if not self.open:
            return
        self._code = code
        self._protocol.send_close(code, reason)
        self.open = False
        self._transport.write(b"".join((last, *self._protocol.data_to_send())))
        self._closing()

    def restart(self, code: int, reason: str) -> None:
        """Close, or drop it in bounded time where the handshake is not done."""
        if self.open:
            self.close(code, reason)
        else:
            self.due(self.patience.close_s, self.abort)

    def abort(self) -> None:
        """End it at once."""
        self._transport.abort()

    def hold(self, still: bool) -> None:
        """Read nothing more for a while, or go on."""
        if self._still != still and not self._transport.is_closing():
            self._still = still
            if not self._in_line:
                if still:
                    self._transport.pause_reading()
                else:
                    self._transport.resume_reading()

    def read_on(self) -> None:
        """Read again, now that its turn has come."""
        self._in_line = False
        if not self._still and not self._transport.is_closing():
            self._transport.resume_reading()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # With nothing allowed in the buffer we are told whenever the system did not take all.
        self._transport.set_write_buffer_limits(high=0)
        self.due(self.patience.open_s, self.abort)
        self._host.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._pace.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        was_open = self.open
        self._protocol.receive_data(bytes(self._pace.buffer[:nbytes]))
        events = self._protocol.events_received()
        self._send()
        self.open = self._protocol.state is State.OPEN
        for event in events:
            if isinstance(event, Frame):
                self._take(event)
            elif isinstance(event, Request):
                self._ask(event)
        if was_open and not self.open:
            self._closing()
        elif not events and self._protocol.state is State.CONNECTING:
            self._measure_head(nbytes)
        if self._pace.took(nbytes, len(events)):
            self._wait_in_line()

    def eof_received(self) -> None:
        # Whoever ends its side has left, whatever is still unsent: asyncio would wait until that is written.
        self._protocol.receive_eof()
        self.open = False
        self.due(self.patience.close_s, self.abort)
        self._leave()

    def pause_writing(self) -> None:
        self.paused = True
        self._unsent = self._transport.get_write_buffer_size()
        self._progress_at = self._loop.time()
        self._stall = self._loop.call_later(self.patience.stall_s / STALL_LOOKS, self._look)

    def resume_writing(self) -> None:
        self.paused = False
        self._pongs = 0
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self.peer is not None and self.open:
            self.peer.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        self._protocol.receive_eof()
        self.open = False
        self._leave()
        self._host.lost(self)

    # What comes of it.

    def _ask(self, request: Request) -> None:
        self._host.asked(self, request)
        # The parser keeps it for as long as the connection is there.
        request.path = ""
        request.headers.clear()

    def _measure_head(self, nbytes: int) -> None:
        self._head_bytes += nbytes
        if self._head_bytes > MAX_HEAD_BYTES and not self._protocol.eof_sent:
            self.respond(self._protocol.reject(HTTPStatus(431), "The request is too large.\n"))

    def _wait_in_line(self) -> None:
        if self._pace.floods:
            self.close(TOO_MANY, "too many frames")
        if not self._in_line and not self._transport.is_closing():
            self._in_line = True
            if not self._still:
                self._transport.pause_reading()
            self._host.crowd(self)

    def _take(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                if self.peer is not None and not self.peer.deaf:
                    self._assemble(self.peer, frame)
            case Opcode.PING:
                self._pongs += self.paused * (len(frame.data) + 2)
                if self._pongs > MAX_UNREAD_BYTES:
                    self.abort()
            case Opcode.CLOSE:
                assert self._protocol.close_rcvd is not None, "it was received"
                self._code = self._code or self._protocol.close_rcvd.code

    def _assemble(self, peer: Peer, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._binary = frame.opcode is Opcode.BINARY
            if frame.fin:
                peer.said(None if self._binary else bytes(frame.data))
                return
            self._parts = bytearray()
        if self._parts is not None:
            self._parts += frame.data
            if frame.fin:
                message, self._parts = bytes(self._parts), None
                peer.said(None if self._binary else message)

    def _send(self) -> None:
        """Send what the protocol answers by itself."""
        if not (pieces := self._protocol.data_to_send()):
            return
        self._transport.write(b"".join(pieces))
        if not pieces[-1]:
            # uvloop raises RuntimeError where the other side was faster.
            with suppress(OSError, RuntimeError):
                self._transport.write_eof()

    def _closing(self) -> None:
        """The close is on its way: whoever sent it first, it has to end soon."""
        sent = self._protocol.close_sent
        self._code = self._code or (sent.code if sent is not None else 0)
        self.hold(False)
        self.due(self.patience.close_s, self.abort)
        self._leave()

    def _leave(self) -> None:
        peer, self.peer = self.peer, None
        self._parts = None
        if peer is not None:
            peer.left()

    def _ping(self) -> None:
        # Of a client that is not read, or that takes nothing, it cannot be known whether it answers.
        if not self._heard and not self._still and not self.paused:
            self.close(UNANSWERED, "a ping was not answered")
            return
        self._heard = False
        if not self.paused:
            self._protocol.send_ping(b"")
            self._send()
        self.stay()

    def _look(self) -> None:
        """See whether the client has taken anything."""
        unsent, now = self._transport.get_write_buffer_size(), self._loop.time()
        if unsent < self._unsent:
            self._unsent, self._progress_at = unsent, now
        elif now - self._progress_at >= self.patience.stall_s and self.peer is not None:
            self._stall = None
            self.peer.stalled()
            return
        self._stall = self._loop.call_later(self.patience.stall_s / STALL_LOOKS, self._look)
