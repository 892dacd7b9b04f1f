"""The records of a run's jobs, read over keep-alive connections once all requests are sent.

Each record is read at least once, however long that takes, and again until it is final or the patience is over. A
connection carries one request at a time: nothing is measured here, and the batchers may still be at work.
"""

import time
from collections import deque
from typing import Final

import msgspec

from loadgen import rawhttp
from loadgen.generator.jobids import JobIds
from loadgen.generator.jobrecord import decode_record
from loadgen.generator.ledger import BAD_ANSWER, NOT_ENDED, Ledger
from loadgen.generator.plan import Plan
from loadgen.generator.pool import Pool
from loadgen.generator.requests import head
from loadgen.generator.wire import Address, Poll

CONNECTIONS: Final = 32
TAKE_AT_ONCE: Final = 64
AGAIN_S: Final = 0.2
# A server that answers nothing for so long is gone.
SILENCE_S: Final = 10.0
TICK_S: Final = 0.05
OK: Final = 200


class Reading:
    """Reads what became of the jobs with an id; ``start_at_s`` is the run's start, since the epoch."""

    def __init__(self, plan: Plan, ids: JobIds, ledger: Ledger, *, start_at_s: float) -> None:
        self._plan, self._ids, self._ledger = plan, ids, ledger
        self._start_at_s = start_at_s
        jobs = (number for number in range(len(ledger.due_s)) if ids.get(number))
        # With when each may be asked for.
        self._open = deque((number, 0.0) for number in jobs)
        self._asked = 0

    def go(self, poll: Poll, address: Address, *, until_s: float) -> None:
        """Read until all are final, or until then."""
        clock = time.monotonic
        pool = Pool(poll, address, CONNECTIONS, answered=self._answered, failed=self._failed)
        pool.open(clock())
        self._heard_s = clock()
        self._until_s = until_s
        while self._open or pool.waiting:
            now_s = clock()
            if now_s - self._heard_s > SILENCE_S:
                break
            while self._open and pool.waiting < CONNECTIONS and self._open[0][1] <= now_s:
                number, _ = self._open.popleft()
                pool.send(number, self._request(number))
            if poll.wait(TICK_S):
                poll.take(TAKE_AT_ONCE)
            pool.open(now_s)
        pool.give_up()
        for number, _ in self._open:
            self._ledger.fail(number, NOT_ENDED)

    def _request(self, number: int) -> bytes:
        return head(self._plan, "GET", f"/v1/jobs/{self._ids.get(number)}") + b"\r\n"

    def _answered(self, number: int, answer: bytes) -> None:
        self._heard_s = now_s = time.monotonic()
        status = rawhttp.status(answer)
        if status != OK:
            self._ledger.fail(number, f"record_{status}")
            return
        try:
            record = decode_record(rawhttp.body(answer))
        except msgspec.DecodeError:
            self._ledger.fail(number, BAD_ANSWER)
            return
        if record.final:
            self._ledger.end(number, record, record.stored_at_s - self._start_at_s)
        elif now_s > self._until_s:
            self._ledger.fail(number, NOT_ENDED)
        else:
            self._open.append((number, now_s + AGAIN_S))

    def _failed(self, number: int, kind: str) -> None:
        if (now_s := time.monotonic()) > self._until_s:
            self._ledger.fail(number, kind)
        else:
            self._open.append((number, now_s + AGAIN_S))
