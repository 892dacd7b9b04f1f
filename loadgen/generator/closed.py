"""The closed loop: each of so many threads, a connection, sends its next request once the last one was answered.

A server that stalls keeps such a client from sending, so the requests that would have met the stall are not in its
figures: it is there for comparison, and so labelled. Latency counts from when a request was sent. Bodies are made as
they go and times go into a histogram, so that a million requests take no more memory than a thousand.

`python -m loadgen.generator.closed` reads a `Closed` as JSON from its standard input and writes an `Answers`.
"""

import ctypes
import gc
import math
import signal
import sys
import time
from array import array
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

import msgspec
import numpy as np

from inferq.errors import OperatorError, first_line
from inferq.ports import LOOPBACK
from loadgen import rawhttp
from loadgen.generator import plan as plans
from loadgen.generator.ledger import ACCEPTED
from loadgen.generator.plan import MOST_CONNECTIONS, Inputs, Plan, texts
from loadgen.generator.pool import Pool
from loadgen.generator.report import Latency, latency
from loadgen.generator.requests import submits
from loadgen.generator.wire import Address, Poll, reached
from loadgen.latencies import Latencies
from loadgen.schedules import MOST_REQUESTS

LABEL: Final = "closed loop: hides stalls"
TAKE_AT_ONCE: Final = 256
TICK_S: Final = 0.05
# Without any answer for so long, the server is gone.
SILENCE_S: Final = 30.0
_HELD: Final = 10_000
_PR_SET_PDEATHSIG: Final = 1


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: ``requests`` over ``threads`` connections with one in flight each."""

    url: str
    requests: int
    threads: int
    path: str = "/v1/infer"
    key: str = ""
    inputs: Inputs = Inputs()
    seed: int = 0


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: 202s, everything else by kind, seconds from the first send to the last answer.

    ``submit`` is sent to 202.
    """

    requests: int
    accepted: int
    errors: dict[str, int]
    seconds: float
    submit: Latency
    own_cpu_s: float

    @property
    def per_s(self) -> float:
        """Accepted requests a second; nan where it took no time."""
        return self.accepted / self.seconds if self.seconds else math.nan


def check(order: Closed) -> None:
    """Raise `OperatorError` for what is out of bounds."""
    if not 1 <= order.requests <= MOST_REQUESTS:
        raise OperatorError(f"--requests goes from 1 to {MOST_REQUESTS:,}")
    if not 1 <= order.threads <= MOST_CONNECTIONS:
        raise OperatorError(f"--threads goes from 1 to {MOST_CONNECTIONS:,}")
    plans.check(Plan(url=order.url, path=order.path))


class _Run:
    def __init__(self, order: Closed) -> None:
        self._order = order
        self._sent_s: dict[int, float] = {}
        self._errors: Counter[str] = Counter()
        self._held_ms = array("d")
        self._kept = Latencies()
        self._accepted = 0
        self._heard_s = 0.0

    def go(self, address: Address) -> Answers:
        order, clock = self._order, time.monotonic
        plan = Plan(url=order.url, path=order.path, key=order.key)
        made = enumerate(submits(plan, texts(order.inputs, order.requests, order.seed)))
        poll = Poll()
        pool = Pool(poll, address, order.threads, answered=self._answered, failed=self._failed)
        own_s, start_s = time.process_time(), clock()
        self._heard_s = start_s
        left = order.requests
        while left or pool.waiting:
            now_s = clock()
            pool.open(now_s)
            while left and pool.waiting < order.threads and pool.free:
                number, request = next(made)
                left -= 1
                self._sent_s[number] = clock()
                pool.send(number, request)
            if poll.wait(TICK_S):
                poll.take(TAKE_AT_ONCE)
            if clock() - self._heard_s > SILENCE_S:
                break
        pool.give_up()
        poll.close()
        self._put()
        return Answers(
            requests=order.requests,
            accepted=self._accepted,
            errors=dict(sorted(self._errors.items())) | ({"not_sent": left} if left else {}),
            seconds=self._heard_s - start_s,
            submit=latency(self._kept),
            own_cpu_s=time.process_time() - own_s,
        )

    def _answered(self, number: int, answer: bytes) -> None:
        self._heard_s = now_s = time.monotonic()
        took_ms = (now_s - self._sent_s.pop(number)) * 1000
        status = rawhttp.status(answer)
        if status != ACCEPTED:
            self._errors[str(status)] += 1
            return
        self._accepted += 1
        self._held_ms.append(took_ms)
        if len(self._held_ms) == _HELD:
            self._put()

    def _failed(self, number: int, kind: str) -> None:
        self._sent_s.pop(number, None)
        self._errors[kind] += 1

    def _put(self) -> None:
        self._kept.record_all_ms(np.array(self._held_ms))
        self._held_ms = array("d")


def carry_out(order: Closed) -> Answers:
    """Carry an order out; raises OSError when the server is not there."""
    parts = urlsplit(order.url)
    return _Run(order).go(reached(parts.hostname or LOOPBACK, parts.port or 80))


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the server is not there."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Closed)
    gc.disable()
    # Its input has ended, so nothing else tells it that nobody waits any more.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        found = carry_out(order)
    except (OSError, OperatorError) as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
