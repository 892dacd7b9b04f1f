"""Submits on schedule and follows nothing, as a process that costs little beside the pipeline it loads.

It shares the machine's cores with what it measures. So bodies are made before the first send, requests go out over a
few keep-alive connections without waiting for earlier answers, and answers are only collected; they are read once all
has been sent. What became of the jobs is in their records, to be asked for afterwards.

It stands beside the generator (`loadgen.generator`) for what that, open loop, must not do: it keeps to a bound of
requests in flight, which a queue is filled by, sends bodies of any kind, and hands back the id of each job.

`python -m loadgen.submitter` reads an `Order` as JSON from its standard input and writes a `Sent` to its output.
"""

import select
import socket
import sys
import time
from collections import Counter, deque
from typing import Final
from urllib.parse import urlsplit

import msgspec

from loadgen.figures import percentile

CONNECTIONS: Final = 32
# Without an answer on one connection: fewer than a server lets wait there.
MOST_PIPELINED: Final = 24
# A server ends connections that nobody uses; one that was idle for so long is opened anew.
IDLE_S: Final = 5.0
# Answers that are waited for after the last send, and for a single answer when no more may be in flight.
PATIENCE_S: Final = 10.0
# A refusal at full speed would eat the CPU that the pipeline needs to get through what it has.
PAUSE_S: Final = 0.02
RECEIVE_BYTES: Final = 1 << 18
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: bodies, and when each is due in seconds from the start; at most ``in_flight`` without an answer."""

    url: str
    bodies: list[str]
    due_s: list[float]
    in_flight: int = 4096


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: ids of accepted jobs by their number in the order, refusals by status, lags and CPU in seconds.

    ``seconds`` is from the start to the last send.
    """

    jobs: dict[int, str]
    refused: dict[str, int]
    seconds: float
    lag_p99_s: float
    cpu_s: float

    @property
    def offered(self) -> int:
        """Count the requests that were sent."""
        return len(self.jobs) + sum(self.refused.values())


class _Accepted(msgspec.Struct):
    job_id: str


class _Connection:
    """One keep-alive connection; answers come in the order of the requests."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.waiting: deque[int] = deque()
        self._buffer = bytearray()
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(self._address, timeout=PATIENCE_S)
        # A socket with a timeout would wait inside `recv`, whatever its flags say.
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._used_s = time.monotonic()

    def send(self, number: int, request: bytes) -> None:
        """Send a request; raises OSError when the server is not there."""
        now_s = time.monotonic()
        if not self.waiting and now_s - self._used_s > IDLE_S:
            self.socket.close()
            self._open()
        self._used_s = now_s
        self.waiting.append(number)
        self.socket.sendall(request)

    def received(self) -> list[tuple[int, int, bytes]]:
        """Return number, status and body of the answers that are here; raises `ConnectionError`."""
        try:
            data = self.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the server closed a connection")
        self._buffer += data
        answers = []
        while (end := self._buffer.find(_HEAD_END)) >= 0:
            head = bytes(self._buffer[:end])
            begin = head.lower().index(_LENGTH) + len(_LENGTH)
            length = int(head[begin:].split(b"\r\n", 1)[0])
            whole = end + len(_HEAD_END) + length
            if len(self._buffer) < whole:
                break
            status, body = int(head[9:12]), bytes(self._buffer[whole - length : whole])
            answers.append((self.waiting.popleft(), status, body))
            del self._buffer[:whole]
        return answers


def submit(order: Order) -> Sent:
    """Carry an order out; raises OSError when the server is not there, or goes away."""
    parts = urlsplit(order.url)
    head = f"POST /v1/infer HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    requests = []
    for body in order.bodies:
        data = body.encode()
        requests.append(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    connections = [_Connection(address) for _ in range(CONNECTIONS)]
    try:
        return _send(order, requests, connections)
    finally:
        for connection in connections:
            connection.socket.close()


def _send(order: Order, requests: list[bytes], connections: list[_Connection]) -> Sent:
    answers: list[tuple[int, int, bytes]] = []
    lags = []
    most = min(order.in_flight, CONNECTIONS * MOST_PIPELINED)
    cpu_s, start = time.process_time(), time.monotonic()
    for number, (request, due_s) in enumerate(zip(requests, order.due_s, strict=True)):
        while number - len(answers) >= most:
            _wait(connections)
            got = _collect(connections)
            answers += got
            if any(status != 202 for _, status, _ in got):
                time.sleep(PAUSE_S)
        if (early_s := start + due_s - time.monotonic()) > 0:
            answers += _collect(connections)
            early_s = start + due_s - time.monotonic()
            time.sleep(max(0.0, early_s))
        lags.append(max(0.0, time.monotonic() - start - due_s))
        min(connections, key=_queued).send(number, request)
    seconds = time.monotonic() - start
    while len(answers) < len(requests):
        _wait(connections)
        answers += _collect(connections)
    cpu_s = time.process_time() - cpu_s
    refused = Counter(str(status) for _, status, _ in answers if status != 202)
    accepted = msgspec.json.Decoder(_Accepted)
    return Sent(
        jobs={number: accepted.decode(body).job_id for number, status, body in answers if status == 202},
        refused=dict(refused),
        seconds=seconds,
        lag_p99_s=percentile(sorted(lags), 0.99),
        cpu_s=cpu_s,
    )


def _queued(connection: _Connection) -> int:
    return len(connection.waiting)


def _collect(connections: list[_Connection]) -> list[tuple[int, int, bytes]]:
    return [answer for one in connections if one.waiting for answer in one.received()]


def _wait(connections: list[_Connection]) -> None:
    sockets = [one.socket for one in connections if one.waiting]
    if not select.select(sockets, [], [], PATIENCE_S)[0]:
        raise TimeoutError(f"no answer within {PATIENCE_S:g} s")


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the server does not answer."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        sent = submit(order)
    except OSError as error:
        sys.stderr.write(f"submitter: {error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(sent))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
