"""The open loop: requests on schedule whatever the server does, each timed from when it was due.

A process of its own that shares its cores with what it measures. Requests are made beforehand; a request goes out over
a connection that waits for nothing, and only where there is none behind others. Answers are read as they come, a few at
a time, so that reading does not make the next send late. It goes before other processes where it may (`PRIORITY`), as
clients elsewhere would. How late sends were is part of the answer: beyond `MOST_LAG_MS` at the 99th percentile the
generator was short of CPU, and its times say nothing about the server.

The generator (`loadgen.generator`) counts what came, by kind. What is told from a full queue needs the status of each
request in the order they were due, and the times of refusals, which its report does not hold; that is why this stands.

`python -m loadgen.timedload` reads a `Timed` as JSON from its standard input and writes a `Seen` to its output.
"""

import gc
import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec

from loadgen import rawhttp
from loadgen.cputime import CpuMeter
from loadgen.figures import percentile
from loadgen.rawsocket import PATIENCE_S, connected, receive, send
from loadgen.schedules import constant
from loadgen.texts import unique

MOST_LAG_MS: Final = 1.0
PRIORITY: Final = -10
# Answers that are read before the clock is looked at again.
READ_AT_ONCE: Final = 16
# Connections have been accepted by then.
SETTLE_S: Final = 0.2
ACCEPTED: Final = 202
UNANSWERED: Final = 0


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: ``rate`` a second for ``seconds``, unique texts; CPU is read of ``pids`` by name."""

    url: str
    rate: float
    seconds: float
    path: str = "/v1/infer"
    connections: int = 256
    key: str = ""
    pids: dict[str, int] = {}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What came of each request, in the order they were due.

    ``statuses`` are 0 where no answer came within `PATIENCE_S` of the last send, ``waits_ms`` count from when a request
    was due to its answer, negative without one. ``hurried`` counts the 429 and 503 without `Retry-After`. CPU is in
    seconds, ``others_cpu_s`` that of everything else on the machine.
    """

    rate: float
    seconds: float
    statuses: list[int]
    waits_ms: list[float]
    hurried: int
    lag_p99_ms: float
    own_cpu_s: float
    others_cpu_s: float
    cpu_s: dict[str, float]

    @property
    def valid(self) -> bool:
        """Whether the generator kept to its schedule."""
        return self.lag_p99_ms <= MOST_LAG_MS

    @property
    def own_share(self) -> float:
        """Return the share of a core that the generator used."""
        return self.own_cpu_s / self.seconds

    def count(self, status: int) -> int:
        """Count the answers of a status."""
        return self.statuses.count(status)

    def wait_ms(self, share: float, status: int = ACCEPTED) -> float:
        """Return a percentile of the times of the answers of a status."""
        found = zip(self.statuses, self.waits_ms, strict=True)
        return percentile(sorted(wait for one, wait in found if one == status), share)

    def words(self) -> str:
        """Return the run on one line."""
        counted = {code: self.count(code) for code in sorted(set(self.statuses))}
        times = ", ".join(
            f"{name} {self.wait_ms(share):.2f}"
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        )
        shares = {"generator": self.own_cpu_s, **self.cpu_s, "others": self.others_cpu_s}
        used = ", ".join(f"{name} {100 * used_s / self.seconds:.0f} %" for name, used_s in shares.items())
        return f"{self.rate:g}/s: {counted}, {times} ms; sends late by p99 {self.lag_p99_ms:.2f} ms; of a core: {used}"


class _Line:
    """One connection: numbers of the requests without an answer, in order, and what has come of the next answer."""

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self.waiting: deque[int] = deque()
        self._rest = b""

    def answers(self) -> list[tuple[int, bytes]]:
        """Return number and bytes of the answers that are here."""
        data = self._rest + receive(self.socket)
        found = []
        while (size := rawhttp.whole(data)) and len(data) >= size:
            found.append((self.waiting.popleft(), data[:size]))
            data = data[size:]
        self._rest = data
        return found


class _Run:
    """The state of one run."""

    def __init__(self, order: Timed, requests: list[bytes], sockets: list[socket.socket]) -> None:
        self._order, self._requests = order, requests
        self._lines = {one.fileno(): _Line(one) for one in sockets}
        # In turn, so that none is idle for long: a server ends those that nobody uses.
        self._free = deque(self._lines.values())
        self._busy = deque(self._lines.values())
        self._statuses = [UNANSWERED] * len(requests)
        self._waits_ms = [-1.0] * len(requests)
        self._lags_ms: list[float] = []
        self._left, self._hurried = len(requests), 0

    def go(self) -> Seen:
        """Send all, then wait for what is still to come."""
        order = self._order
        meter = CpuMeter(order.pids)
        due_s = list(constant(order.rate, order.seconds))
        clock = time.monotonic
        with select.epoll() as poll:
            for line in self._lines.values():
                poll.register(line.socket, select.EPOLLIN)
            time.sleep(SETTLE_S)
            meter.restart()
            own_s, start_s = time.process_time(), clock()
            self._start_s = start_s
            for number, due in enumerate(due_s):
                while (early_s := start_s + due - clock()) > 0:
                    # epoll knows milliseconds alone, select microseconds; and an epoll can be selected.
                    if select.select([poll], [], [], early_s)[0]:
                        self._read(poll)
                if number % READ_AT_ONCE == 0:
                    # A generator that is behind all the time reads all the same.
                    self._read(poll)
                self._send(number, clock() - start_s - due)
            end_s = start_s + order.seconds
            cpu_s, all_s, seconds = meter.seconds(), meter.everything_s(), clock() - start_s
            own_s = time.process_time() - own_s
            while self._left and (patience_s := end_s + PATIENCE_S - clock()) > 0:
                if select.select([poll], [], [], patience_s)[0]:
                    self._read(poll)
        return Seen(
            rate=order.rate,
            seconds=seconds,
            statuses=self._statuses,
            waits_ms=self._waits_ms,
            hurried=self._hurried,
            lag_p99_ms=percentile(sorted(self._lags_ms), 0.99),
            own_cpu_s=own_s,
            others_cpu_s=max(0.0, all_s - own_s - sum(cpu_s.values())),
            cpu_s=cpu_s,
        )

    def _send(self, number: int, late_s: float) -> None:
        self._lags_ms.append(late_s * 1000)
        if self._free:
            line = self._free.popleft()
        else:
            line = self._busy[0]
            self._busy.rotate(-1)
        line.waiting.append(number)
        send(line.socket, self._requests[number])

    def _read(self, poll: select.epoll) -> None:
        for descriptor, _ in poll.poll(0, READ_AT_ONCE):
            line = self._lines[descriptor]
            answers = line.answers()
            for number, answer in answers:
                now_s = time.monotonic() - self._start_s
                self._waits_ms[number] = (now_s - number / self._order.rate) * 1000
                self._statuses[number] = status = rawhttp.status(answer)
                self._left -= 1
                if status in (429, 503) and not rawhttp.has_header(answer, "retry-after"):
                    self._hurried += 1
            if answers and not line.waiting:
                self._free.append(line)


def drive(order: Timed) -> Seen:
    """Carry an order out.

    Raises:
        OSError: the server is not there, goes away, or does not speak HTTP.
    """
    place = urlsplit(order.url).netloc
    texts = unique(round(order.rate * order.seconds))
    requests = [rawhttp.post(place, order.path, body, key=order.key) for body in rawhttp.bodies(texts)]
    with connected(order.url, order.connections) as sockets:
        try:
            return _Run(order, requests, sockets).go()
        except ValueError as error:
            raise ConnectionError(str(error)) from error


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the server does not answer."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Timed)
    # Nothing here makes cycles, and a collection would make the next sends late.
    gc.disable()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    try:
        seen = drive(order)
    except OSError as error:
        sys.stderr.write(f"open loop: {error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(seen))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
