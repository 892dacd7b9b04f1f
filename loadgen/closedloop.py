"""The closed loop: a number of connections with one request in flight each, as fast as the server answers.

A process of its own that shares its cores with what it measures, so it does as little as it can: requests are made
beforehand, and each answer costs one `recv`, one `send` and a look at its length and status, over one `epoll`.
It also reads the CPU that other processes use, so that their count is of the very time that is measured.

`python -m loadgen.closedloop` reads a `Closed` as JSON from its standard input and writes a `Rate` to its output.
"""

import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from itertools import cycle
from typing import Final
from urllib.parse import urlsplit

import msgspec

from loadgen import rawhttp
from loadgen.cputime import CpuMeter
from loadgen.texts import unique

PATIENCE_S: Final = 10.0
RECEIVE_BYTES: Final = 1 << 18
# A generator that uses this share of a core may be what the rate is of.
BUSY_SHARE: Final = 0.8


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and for how long; ``pids`` are processes whose CPU is read, by name.

    ``jobs`` above 0 sends batches of so many. There are ``texts`` unique texts; should they not suffice, they come
    again.
    """

    url: str
    path: str = "/v1/infer"
    seconds: float = 5.0
    warm_s: float = 2.0
    connections: int = 64
    texts: int = 60_000
    jobs: int = 0
    key: str = ""
    pids: dict[str, int] = {}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What came in ``seconds``: 2xx answers, jobs in them, other answers by status; CPU in seconds by process.

    The generator's own CPU is in ``own_cpu_s``.
    """

    seconds: float
    accepted: int
    jobs: int
    refused: dict[str, int]
    own_cpu_s: float
    cpu_s: dict[str, float]

    @property
    def per_s(self) -> float:
        """Return accepted jobs a second."""
        return self.jobs / self.seconds

    @property
    def own_share(self) -> float:
        """Return the share of a core that the generator used."""
        return self.own_cpu_s / self.seconds

    def cpu_us(self, name: str) -> float:
        """Return the CPU that a process used for an accepted job, in microseconds; nan without any."""
        return self.cpu_s[name] / self.jobs * 1e6 if self.jobs else float("nan")

    def words(self) -> str:
        """Return the run on one line."""
        shares: Mapping[str, float] = {"generator": self.own_cpu_s} | self.cpu_s
        used = ", ".join(f"{name} {100 * used_s / self.seconds:.0f} %" for name, used_s in shares.items())
        refused = f", refused {self.refused}" if self.refused else ""
        return f"{self.per_s:.0f} jobs/s{refused}; of a core: {used}"


class _BatchAnswer(msgspec.Struct):
    accepted: int


def drive(order: Closed) -> Rate:
    """Carry an order out.

    Raises:
        OSError: the server is not there, goes away, or leaves all connections without an answer.
    """
    parts = urlsplit(order.url)
    made = [
        rawhttp.post(parts.netloc, order.path, body, key=order.key)
        for body in rawhttp.bodies(unique(order.texts), jobs=order.jobs)
    ]
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    sockets = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(order.connections)]
    try:
        for one in sockets:
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _drive(order, made, sockets)
    except ValueError as error:
        raise ConnectionError(str(error)) from error
    finally:
        for one in sockets:
            one.close()


def _drive(order: Closed, made: list[bytes], sockets: list[socket.socket]) -> Rate:
    meter = CpuMeter(order.pids)
    answers: Counter[int] = Counter()
    jobs = 0
    batch = msgspec.json.Decoder(_BatchAnswer)
    requests = cycle(made)
    halves: dict[int, bytes] = {}
    by_number = {one.fileno(): one for one in sockets}
    clock, whole = time.monotonic, rawhttp.whole
    with select.epoll() as poll:
        for one in sockets:
            poll.register(one, select.EPOLLIN)
            one.sendall(next(requests))
        begin_s = clock() + order.warm_s
        end_s = begin_s + order.seconds
        warm = False
        own_s = 0.0
        while (now := clock()) < end_s:
            if not warm and now >= begin_s:
                meter.restart()
                answers.clear()
                warm, jobs, begin_s, own_s = True, 0, clock(), time.process_time()
                end_s = begin_s + order.seconds
            ready = poll.poll(PATIENCE_S)
            if not ready:
                raise TimeoutError(f"no answer within {PATIENCE_S:g} s")
            for number, _ in ready:
                one = by_number[number]
                data = one.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionError("the server closed a connection")
                if halves and number in halves:
                    data = halves.pop(number) + data
                size = whole(data)
                if not size or len(data) < size:
                    halves[number] = data
                    continue
                code = rawhttp.status(data)
                answers[code] += 1
                if order.jobs and code < 300:
                    jobs += batch.decode(rawhttp.body(data)).accepted
                # A socket with nothing in flight takes a request whole, unless it is larger than its buffer.
                _send(one, next(requests))
        own_s = time.process_time() - own_s
        seconds, used = clock() - begin_s, meter.seconds()
    accepted = sum(count for code, count in answers.items() if code < 300)
    return Rate(
        seconds=seconds,
        accepted=accepted,
        jobs=jobs if order.jobs else accepted,
        refused={str(code): count for code, count in answers.items() if code >= 300},
        own_cpu_s=own_s,
        cpu_s=used,
    )


def _send(one: socket.socket, request: bytes) -> None:
    sent = one.send(request)
    if sent < len(request):
        one.settimeout(PATIENCE_S)
        one.sendall(request[sent:])
        one.setblocking(False)


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the server does not answer."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Closed)
    try:
        found = drive(order)
    except OSError as error:
        sys.stderr.write(f"closed loop: {error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
