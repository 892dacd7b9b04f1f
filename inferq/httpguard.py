"""uvicorn's HTTP protocol with hard edges: how many connections there may be, and how much may come of each.

A request that behaves pays for nothing here: no timer, no task, no composed answer. What has come of a request is
looked at only when a packet leaves it incomplete.

A refusal is an answer, so it comes in its turn: while an earlier request of the connection waits for its own answer,
that one becomes the last and says `Connection: close`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from inferq.httpcrowd import Guard
from inferq.httponewrite import OneWriteProtocol
from inferq.refusals import CROWDED, MALFORMED, Refusal


class _Refused(Exception):
    """Thrown through the parser, which stops there."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class _Enough(Exception):
    """As many requests wait on this connection as may."""


class _Nowhere(list[tuple[bytes, bytes]]):
    """Takes the trailers of a chunked body, which uvicorn would add to headers that were already acted upon."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Forget it."""


_NOWHERE: Final = _Nowhere()


class _Flow(FlowControl):
    """Reads on only while little waits: every request that begins asks for more, also on behalf of those behind it."""

    def __init__(
        self, transport: asyncio.Transport, waiting: Sequence[tuple[RequestResponseCycle, Any]]
    ) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless bodies wait for their turn; they ask again once it has come."""
        if not self._waiting or sum(len(cycle.body) for cycle, _ in self._waiting) <= HIGH_WATER_LIMIT:
            super().resume_reading()


class BoundedProtocol(OneWriteProtocol):
    """One connection of a server; a subclass binds it to the server's guard."""

    guard: ClassVar[Guard]

    # uvicorn declares neither as what it is before the first request.
    cycle: RequestResponseCycle | None  # type: ignore[assignment]  # None before the first request
    scope: HTTPScope | None  # type: ignore[assignment]  # None before the first request

    # What stands here is the state of a new connection.
    # What has come in part: the scope of a head, the cycle of a body; None between requests. And since when.
    _stage: object = None
    _since_s = 0.0
    # Bytes of it that the parser has taken since it last gave something out, and how many of them may be older.
    _held_bytes = 0
    _older_bytes = 0
    _came_out = False
    # More than the limit was fed, so a head has to be measured when it is complete.
    _measuring = False
    _upgrading = False
    # Requests that another came after before they had their answers.
    _earlier: Sequence[RequestResponseCycle] = ()
    # Deaf: what comes is thrown away. Leaving: all is said, the client is given time to read it.
    _deaf = False
    _leaving = False
    _thrown_bytes = 0

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Take the connection in, if there is room."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self.guard.open.set(len(self.connections))
        self._since_s = self.loop.time()
        if len(self.connections) > self.guard.limits.connections:
            if self.guard.crowd_in(self):
                self.app = cast(Any, self.guard.probes_alone(cast(Any, self.app)))
            else:
                self.turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and tell every request of it that waits for its answer."""
        self.guard.forget(self)
        # uvicorn tells the newest alone, which is not the one that runs when several wait.
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)
        self.guard.open.set(len(self.connections))

    def shutdown(self) -> None:
        """End what only lingers at once; the rest as uvicorn does."""
        if self._leaving:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def silent(self) -> bool:
        """Whether no whole head has come."""
        return self.cycle is None

    def turn_away(self) -> None:
        """Refuse the connection, beyond the limit, at once."""
        self.guard.forget(self)
        self.guard.count(CROWDED.reason)
        self._deaf = True
        self.transport.write(CROWDED.message)
        self.transport.close()

    # -- what comes

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and no more than a head may have at a time."""
        self._unset_keepalive_if_required()
        if self._deaf:
            self._throw_away(len(data))
        elif self._held_bytes + len(data) <= self.guard.limits.head_bytes:
            self._feed(data)
        else:
            self._measuring = True
            rest = memoryview(data)
            while rest and not self._deaf:
                room = self.guard.limits.head_bytes - self._held_bytes + self._older_bytes
                if room <= 0:
                    self.refuse(self.guard.head_too_large)
                else:
                    self._feed(rest[:room])
                    rest = rest[room:]
            self._measuring = False

    def _feed(self, data: bytes | memoryview) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self._ignore_upgrade(bytes(data[stopped.args[0] :]))
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, _Enough):
                self._last_is(self.pipeline[0][0], "pipelined")
            else:
                self.refuse(cause.refusal if isinstance(cause, _Refused) else MALFORMED)
            return
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope or cycle.more_body:
            self._left_incomplete(len(data))
        elif self._stage is not None:
            self._stage = None
            self._held_bytes = self._older_bytes = 0
        self._came_out = False

    def _left_incomplete(self, size: int) -> None:
        """Note that a packet, or a piece of one, has ended within a head or a body."""
        in_head = self.cycle is None or self.cycle.scope is not self.scope
        stage = self.scope if in_head else self.cycle
        if stage is None or (stage is self._stage and not self._came_out):
            self._held_bytes += size
        else:
            self._held_bytes = size
            # Where in the piece a head began is known only when nothing came before it.
            alone = in_head and self._stage is None and not self._came_out
            self._older_bytes = 0 if alone else size
        if stage is not self._stage:
            self._stage = stage
            if self.cycle is not None:  # The first head's time runs from the connection's opening.
                self._since_s = self.loop.time()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request that asks for another protocol as one that does not ask (RFC 9110, 7.8).

        The parser would take the request to have no body, and its body for the next request.
        """
        fields = [(name, value) for name, value in self.headers if name != b"upgrade"]
        line = b"%s %s HTTP/%s" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode(),
        )
        head = b"\r\n".join([line, *(name + b": " + value for name, value in fields), b"", b""])
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(head)
        if rest and not self._deaf:
            self._feed(rest)

    def _throw_away(self, size: int) -> None:
        self._thrown_bytes += size
        if self._thrown_bytes > self.guard.limits.linger_bytes:
            if self._leaving:
                self.transport.close()
            else:
                self.flow.pause_reading()

    # -- what the parser found

    def on_headers_complete(self) -> None:
        """Begin a request, or queue it behind those of this connection that wait for their answers."""
        if self._measuring and self._head_bytes() > self.guard.limits.head_bytes:
            raise _Refused(self.guard.head_too_large)
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _Refused(MALFORMED)
            self._upgrading = True
            return
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if len(self.pipeline) >= self.guard.limits.pipelined_requests:
                raise _Enough
            self._earlier = [*(each for each in self._earlier if not each.response_complete), cycle]
        super().on_headers_complete()
        self.headers = _NOWHERE
        self._came_out = True

    def on_body(self, body: bytes) -> None:
        """Hand on a part of a body, unless the request has been answered."""
        self._came_out = True
        cycle = self.cycle
        assert cycle is not None, "a body comes after its head"
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Note the end of a request, also of one that has been answered."""
        if not self._upgrading:
            cycle = self.cycle
            assert cycle is not None, "a request ends after its head"
            cycle.more_body = False
            cycle.message_event.set()

    def _head_bytes(self) -> int:
        line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n")
        return (
            line + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers) + len("\r\n")
        )

    # -- refusals

    def refuse(self, refusal: Refusal) -> None:
        """End the connection with an answer, once those before it have theirs."""
        cycle = self.cycle
        of_body = cycle is not None and cycle.scope is self.scope and cycle.more_body
        if cycle is None or (cycle.response_complete and not of_body):
            self._leave(refusal, answer=True)
        elif not of_body:
            # It is the next request that is refused.
            self._last_is(cycle, refusal.reason)
        elif self.pipeline and self.pipeline[0][0] is cycle:
            # Its turn has not come: the application does not know of it.
            self.pipeline[0] = (cycle, cast(Any, refusal.answer))
            self._last_is(cycle, refusal.reason)
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            self._leave(refusal, answer=not cycle.response_started)

    def _last_is(self, cycle: RequestResponseCycle, reason: str) -> None:
        self.guard.count(reason)
        cycle.keep_alive = False
        self._deaf = True

    def _leave(self, refusal: Refusal, *, answer: bool) -> None:
        """Say no more, but read on for a moment: closed over unread bytes, a connection is reset, its answer lost."""
        self.guard.count(refusal.reason)
        if answer:
            self.transport.write(refusal.message)
        self._deaf = self._leaving = True
        self._since_s = self.loop.time()
        self.flow.resume_reading()
        self.transport.write_eof()
