"""The closed loop: a number of connections with one request in flight each, as fast as the server answers.

A process of its own that shares its cores with what it measures, so it does as little as it can: requests are made
beforehand, and each answer costs one `recv`, one `send` and a look at its length and status, over one `epoll`.
It also reads the CPU that other processes use, so that their count is of the very time that is measured.

`python -m loadgen.closedloop` reads a `Closed` as JSON from its standard input and writes a `Rate` to its output.
"""

import gc
import select
import socket
import sys
import time
from collections import Counter
from itertools import cycle
from typing import Final
from urllib.parse import urlsplit

import msgspec

from loadgen import rawhttp
from loadgen.cputime import CpuMeter
from loadgen.rawsocket import PATIENCE_S, connected, receive, send
from loadgen.texts import dealt

# A generator that uses this share of a core may be what the rate is of.
BUSY_SHARE: Final = 0.8
# What else runs on the machine, the kernel's own threads included, may use this share of a core.
OTHERS_SHARE: Final = 0.3


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and for how long; ``pids`` are processes whose CPU is read, by name.

    ``jobs`` above 0 sends batches of so many. There are ``texts`` unique texts; should they not suffice, they come
    again. ``prefer`` is what requests say in `Prefer`; ``expect`` is the status that counts, where it is not 0: a
    server that is to wait for the result gives another one when it has not.
    """

    url: str
    path: str = "/v1/infer"
    prefer: str = ""
    expect: int = 0
    seconds: float = 5.0
    warm_s: float = 2.0
    connections: int = 64
    texts: int = 60_000
    jobs: int = 0
    key: str = ""
    pids: dict[str, int] = {}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What came in ``seconds``: answers that count, jobs in them, other answers by status; CPU in seconds by process.

    The generator's own CPU is in ``own_cpu_s``, that of everything else on the machine in ``others_cpu_s``.
    """

    seconds: float
    accepted: int
    jobs: int
    refused: dict[str, int]
    own_cpu_s: float
    others_cpu_s: float
    cpu_s: dict[str, float]

    @property
    def doubts(self) -> list[str]:
        """Return why the rate may not be the server's."""
        found = []
        if self.own_share > BUSY_SHARE:
            found.append("the generator was short of CPU")
        if self.others_cpu_s / self.seconds > OTHERS_SHARE:
            found.append("something else used the machine")
        return found

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
        shares = {"generator": self.own_cpu_s, **self.cpu_s, "others": self.others_cpu_s}
        used = ", ".join(f"{name} {100 * used_s / self.seconds:.0f} %" for name, used_s in shares.items())
        refused = f", refused {self.refused}" if self.refused else ""
        doubts = "".join(f"; doubtful: {doubt}" for doubt in self.doubts)
        return f"{self.per_s:.0f} jobs/s{refused}; of a core: {used}{doubts}"


class _BatchAnswer(msgspec.Struct):
    accepted: int


class _Counts:
    """What has come since the count began."""

    def __init__(self, *, batches: bool, expect: int) -> None:
        self._batches, self._expect = batches, expect
        self._decode = msgspec.json.Decoder(_BatchAnswer).decode
        self.restart()

    def restart(self) -> None:
        self.answers: Counter[int] = Counter()
        self._jobs = 0

    def add(self, answer: bytes) -> None:
        code = rawhttp.status(answer)
        self.answers[code] += 1
        if self._batches and self._counts(code):
            self._jobs += self._decode(rawhttp.body(answer)).accepted

    @property
    def accepted(self) -> int:
        return sum(count for code, count in self.answers.items() if self._counts(code))

    @property
    def jobs(self) -> int:
        return self._jobs if self._batches else self.accepted

    @property
    def refused(self) -> dict[str, int]:
        return {str(code): count for code, count in self.answers.items() if not self._counts(code)}

    def _counts(self, code: int) -> bool:
        return code == self._expect if self._expect else code < 300


def drive(order: Closed) -> Rate:
    """Carry an order out.

    Raises:
        OSError: the server is not there, goes away, does not speak HTTP, or leaves all connections without an answer.
    """
    place = urlsplit(order.url).netloc
    made = [
        rawhttp.post(place, order.path, body, key=order.key, prefer=order.prefer)
        for body in rawhttp.bodies(dealt(order.texts), jobs=order.jobs)
    ]
    with connected(order.url, order.connections) as sockets:
        try:
            return _drive(order, made, sockets)
        except ValueError as error:
            raise ConnectionError(str(error)) from error


def _drive(order: Closed, made: list[bytes], sockets: list[socket.socket]) -> Rate:
    meter = CpuMeter(order.pids)
    counts = _Counts(batches=order.jobs > 0, expect=order.expect)
    requests = cycle(made)
    halves: dict[int, bytes] = {}
    by_number = {one.fileno(): one for one in sockets}
    clock, whole = time.monotonic, rawhttp.whole
    with select.epoll() as poll:
        for one in sockets:
            poll.register(one, select.EPOLLIN)
            send(one, next(requests))
        begin_s, warm, own_s = clock() + order.warm_s, False, 0.0
        while (now_s := clock()) < begin_s + order.seconds or not warm:
            if not warm and now_s >= begin_s:
                meter.restart()
                counts.restart()
                warm, begin_s, own_s = True, clock(), time.process_time()
            ready = poll.poll(PATIENCE_S)
            if not ready:
                raise TimeoutError(f"no answer within {PATIENCE_S:g} s")
            for number, _ in ready:
                one = by_number[number]
                data = receive(one)
                if number in halves:
                    data = halves.pop(number) + data
                size = whole(data)
                if not size or len(data) < size:
                    halves[number] = data
                    continue
                counts.add(data)
                send(one, next(requests))
        own_s = time.process_time() - own_s
        seconds, used, all_s = clock() - begin_s, meter.seconds(), meter.everything_s()
    return Rate(
        seconds=seconds,
        accepted=counts.accepted,
        jobs=counts.jobs,
        refused=counts.refused,
        own_cpu_s=own_s,
        others_cpu_s=max(0.0, all_s - own_s - sum(used.values())),
        cpu_s=used,
    )


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the server does not answer."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Closed)
    # Nothing here makes cycles, and a collection would walk through everything that was made beforehand.
    gc.disable()
    try:
        found = drive(order)
    except OSError as error:
        sys.stderr.write(f"closed loop: {error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
