"""Keep-alive connections over which requests go out at once, whatever has come back.

1. A request goes over a connection that waits for nothing, in turn, so that all are used alike and several processes on
   one port get their shares; where there is none, behind the requests of another one (HTTP pipelining).
2. A connection that is lost costs the requests that waited on it, never the run. It is opened anew, at most once in
   `REOPEN_S`.
3. Where no connection is open, or each has `MOST_WAITING` requests without an answer, a request is not sent: it is
   counted as `no_connection`, since an open loop does not wait.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from loadgen import rawhttp
from loadgen.generator.ledger import BAD_ANSWER, CONNECTION_LOST, NO_ANSWER, NO_CONNECTION
from loadgen.generator.wire import OUT, Address, Poll, Wire

REOPEN_S: Final = 0.1
MOST_WAITING: Final = 4_096

Answered = Callable[[int, bytes], None]
Failed = Callable[[int, str], None]


class _Line:
    """A connection, or the place of one that is lost: numbers of the requests without an answer, in order."""

    __slots__ = ("free", "opened_s", "pool", "rest", "waiting", "wire")

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.waiting: deque[int] = deque()
        self.wire: Wire | None = None
        self.rest = b""
        self.opened_s = 0.0
        # Whether it stands among the free ones: once, however often it is lost and opened anew.
        self.free = False

    def ready(self, mask: int) -> None:
        """Do what the poll says can be done."""
        wire = self.wire
        if wire is None:
            return
        try:
            if mask & OUT:
                wire.flush()
            if mask & ~OUT:
                self._take(wire.read())
        except OSError:
            self.pool.lost(self, CONNECTION_LOST)
        except (ValueError, IndexError):
            self.pool.lost(self, BAD_ANSWER)

    def _take(self, data: bytes) -> None:
        waited = bool(self.waiting)
        data = self.rest + data if self.rest else data
        while data and (size := rawhttp.whole(data)) and len(data) >= size:
            # Without a request that it could be of, this raises.
            number = self.waiting.popleft()
            self.pool.waiting -= 1
            try:
                self.pool.answered(number, data[:size])
            except ValueError:
                self.pool.failed(number, BAD_ANSWER)
                raise
            data = data[size:]
        self.rest = data
        if waited and not self.waiting:
            self.pool.release(self)


class Pool:
    """So many connections to one server; ``answered`` gets number and bytes of each answer, ``failed`` the others."""

    def __init__(
        self, poll: Poll, address: Address, count: int, *, answered: Answered, failed: Failed
    ) -> None:
        self._poll, self._address = poll, address
        self.answered, self.failed = answered, failed
        self.waiting = 0
        self._lines = deque(_Line(self) for _ in range(count))
        self._lost = deque(self._lines)
        self.free: deque[_Line] = deque()

    def open(self, now_s: float) -> None:
        """Open what is not open and may be by now."""
        for _ in range(len(self._lost)):
            line = self._lost.popleft()
            if line.opened_s and now_s < line.opened_s + REOPEN_S:
                self._lost.append(line)
                continue
            line.opened_s = now_s
            line.wire = Wire(self._poll, self._address, line.ready)
            self.release(line)

    def release(self, line: _Line) -> None:
        """Let a connection that waits for nothing take the next request."""
        if not line.free:
            line.free = True
            self.free.append(line)

    def send(self, number: int, request: bytes) -> None:
        """Send a request, or count it as failed."""
        line = self._line()
        if line is None or line.wire is None:
            self.failed(number, NO_CONNECTION)
            return
        line.waiting.append(number)
        self.waiting += 1
        try:
            line.wire.write(request)
        except OSError:
            self.lost(line, CONNECTION_LOST)

    def _line(self) -> _Line | None:
        while self.free:
            line = self.free.popleft()
            line.free = False
            if line.wire is not None and not line.waiting:
                return line
        for _ in range(len(self._lines)):
            line = self._lines[0]
            self._lines.rotate(-1)
            if line.wire is not None and len(line.waiting) < MOST_WAITING:
                return line
        return None

    def lost(self, line: _Line, kind: str) -> None:
        """Close a connection; what waited on it has failed."""
        assert line.wire is not None, "it is lost once"
        line.wire.close()
        line.wire, line.rest = None, b""
        self._fail(line, kind)
        self._lost.append(line)

    def give_up(self) -> None:
        """Count the requests that are still without an answer, and close all connections."""
        for line in self._lines:
            self._fail(line, NO_ANSWER)
            if line.wire is not None:
                line.wire.close()

    def _fail(self, line: _Line, kind: str) -> None:
        self.waiting -= len(line.waiting)
        for number in line.waiting:
            self.failed(number, kind)
        line.waiting.clear()
