"""How slowly a client may send and take. One sweep a second looks at every open connection; no request has a timer.

What is awaited of the client has a deadline: the end of a head, the end of a body, that it takes something of an answer
that fills the buffers. While we do not read, or an application works, nothing is awaited of it. Between two requests it
may be idle for uvicorn's `timeout_keep_alive`.
"""

from typing import Any

from inferq.httpcrowd import Guard
from inferq.httpguard import BoundedProtocol
from inferq.refusals import STOPPING


class GuardedProtocol(BoundedProtocol):
    """One connection whose client has deadlines."""

    # What the client had not taken at the last look, while it held us up; -1 while it does not.
    _untaken_bytes = -1

    def resume_writing(self) -> None:
        """Go on writing: the client has taken something, though the next answer may bring as many bytes again."""
        self._untaken_bytes = -1
        super().resume_writing()

    def shutdown(self) -> None:
        """Let what has come whole be answered, and what has come in part come whole for a moment."""
        super().shutdown()
        if not self.transport.is_closing():
            self.loop.call_later(self.guard.limits.stop_s, self._refuse_part)

    def _refuse_part(self) -> None:
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete and not self._leaving:
            # uvicorn would wait for it as long as it may, and then answer 500.
            self.refuse(STOPPING)

    def look(self, now_s: float) -> None:
        """Keep the deadlines; ``now_s`` is the loop's time."""
        if self.transport.is_closing() or self.flow.write_paused:
            self._look_at_answers(now_s)
            return
        self._untaken_bytes = -1
        if self._leaving:
            if now_s - self._since_s >= self.guard.limits.linger_s:
                self.transport.close()
        elif self.flow.read_paused or self._deaf:
            self._since_s = now_s
        else:
            self._look_at_requests(now_s)

    def _look_at_answers(self, now_s: float) -> None:
        untaken = self.transport.get_write_buffer_size()
        if untaken != self._untaken_bytes:
            self._untaken_bytes, self._since_s = untaken, now_s
        elif now_s - self._since_s >= self.guard.limits.unread_s:
            self.guard.count("unread")
            self.transport.abort()

    def _look_at_requests(self, now_s: float) -> None:
        cycle, late_s = self.cycle, now_s - self._since_s
        if self.scope is None:
            if late_s >= self.guard.limits.head_s:
                self._end_unused()
        elif self._stage is self.scope:
            if late_s >= self.guard.limits.head_s:
                self.refuse(self.guard.head_slow)
        elif self._stage is not None:
            if late_s >= self.guard.limits.body_s:
                self.refuse(self.guard.body_slow)
        elif (
            cycle is not None
            and cycle.response_complete
            and now_s - self.idle_since_s >= self.timeout_keep_alive
        ):
            self.transport.close()

    def _end_unused(self) -> None:
        if self._held_bytes:
            self.refuse(self.guard.head_slow)
        else:
            # It was opened and nothing was asked: there is nothing to answer.
            self.transport.close()


def guarded(guard: Guard) -> type[GuardedProtocol]:
    """Make the protocol of one server."""
    return type("BoundProtocol", (GuardedProtocol,), {"guard": guard})


class Sweep:
    """Looks at every connection once in so many ticks, at a part of them in each: the loop is held up little."""

    def __init__(self, connections: set[Any], *, ticks: int) -> None:
        self._connections, self._ticks = connections, ticks
        self._round: list[GuardedProtocol] = []
        self._ticks_left = 0

    def tick(self, now_s: float) -> None:
        """Look at the next part; ``now_s`` is the loop's time."""
        if not self._ticks_left:
            self._ticks_left = self._ticks
            self._round = list(self._connections)
        part = -(-len(self._round) // self._ticks_left)
        self._ticks_left -= 1
        for _ in range(part):
            connection = self._round.pop()
            if connection in self._connections:
                connection.look(now_s)
