"""The open loop: requests go out when they are due, whatever has come back.

It is a loop of its own over one epoll, and not uvloop's. libuv's timers count whole milliseconds, so between two sends
that are less than one apart it either sends late or never sleeps: at 2,000 a second it took 71 % of a core to wait, at
150 a second sends were late by 0.3 ms at the median. `select` waits to the microsecond: late by 0.02 to 0.06 ms, for
4 % of a core. Answers and frames are read as they come, a few at a time, so that reading does not make the next send
late; nothing is sent before it is due.
"""

import math
import time
from collections.abc import Callable
from typing import Final

import msgspec

from loadgen import rawhttp
from loadgen.cputime import CpuMeter
from loadgen.generator.feeds import Feeds
from loadgen.generator.jobids import JobIds
from loadgen.generator.jobrecord import Record
from loadgen.generator.ledger import BAD_ANSWER, Ledger
from loadgen.generator.plan import Plan
from loadgen.generator.pool import Pool
from loadgen.generator.requests import Requests
from loadgen.generator.summary import Used
from loadgen.generator.wire import Address, Poll

# Events that are handled before the clock is looked at again.
TAKE_AT_ONCE: Final = 16
# How often lost connections are looked at.
TICK_S: Final = 0.05
SETTLE_S: Final = 0.2
REFUSED_FOR_NOW: Final = frozenset({429, 503})


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The part of a 202 that is looked at."""

    job_id: str = ""
    stream_url: str = ""


class Sending:
    """One run's requests; ``ids`` are those of the accepted jobs by number, where records are to be read."""

    def __init__(self, plan: Plan, made: Requests, ledger: Ledger, poll: Poll, address: Address) -> None:
        self._plan, self._made, self._ledger, self._poll = plan, made, ledger, poll
        self.pool = Pool(poll, address, plan.connections, answered=self._answered, failed=ledger.fail)
        self._feeds = Feeds(poll, target=plan.url, key=plan.key, ended=self._ended, failed=ledger.fail)
        self._decode = msgspec.json.Decoder(Accepted).decode
        self.ids = JobIds(len(made) if plan.follow == "records" else 0)
        self.start_s = self._tick_s = 0.0
        self._second = 0

    def go(self, say: Callable[[int], None]) -> Used:
        """Send all, and wait for what is to come; ``say`` is called with each second that is over."""
        plan, clock, ledger, made = self._plan, time.monotonic, self._ledger, self._made
        self._say = say
        meter = CpuMeter(plan.pids)
        self.pool.open(clock())
        self._until(clock() + SETTLE_S)
        own_s = 0.0
        self.start_s = start_s = clock()
        for number, due in enumerate(ledger.due_s):
            if number == ledger.first:
                own_s = self._open_count(meter)
            self._until(start_s + due)
            if number % TAKE_AT_ONCE == 0:
                # A generator that is behind all the time reads all the same.
                self._take()
            ledger.send(number, clock() - start_s)
            self.pool.send(number, made[number])
        if ledger.first == len(made):
            own_s = self._open_count(meter)
        closes_s = start_s + plan.schedule.seconds
        self._until(closes_s)
        cpu_s, all_s, own_s = meter.seconds(), meter.everything_s(), time.process_time() - own_s
        while (self.pool.waiting or self._feeds.open) and (
            left_s := closes_s + plan.patience_s - clock()
        ) > 0:
            self._until(clock() + min(left_s, TICK_S), once=True)
        self.pool.give_up()
        self._feeds.give_up()
        return Used(own_s=own_s, others_s=max(0.0, all_s - own_s - sum(cpu_s.values())), by_name=cpu_s)

    def _open_count(self, meter: CpuMeter) -> float:
        """Wait for the end of the warm-up and count CPU from there; return what of it was ours by then."""
        self._until(self.start_s + self._plan.warm_s)
        meter.restart()
        return time.process_time()

    def _until(self, when_s: float, *, once: bool = False) -> None:
        """Take what comes until then, or until something has."""
        while (early_s := when_s - time.monotonic()) > 0:
            if self._poll.wait(min(early_s, TICK_S)):
                self._take()
                if once:
                    return
            elif early_s > TICK_S:
                self._look()

    def _take(self) -> None:
        self._poll.take(TAKE_AT_ONCE)
        self._look()

    def _look(self) -> None:
        now_s = time.monotonic()
        self._feeds.subscribe(now_s)
        if now_s < self._tick_s:
            return
        self._tick_s = now_s + TICK_S
        self.pool.open(now_s)
        if self.start_s and (second := math.floor(now_s - self.start_s)) > self._second:
            self._second = second
            self._say(second)

    def _answered(self, number: int, answer: bytes) -> None:
        status = rawhttp.status(answer)
        self._ledger.answer(number, status, time.monotonic() - self.start_s)
        if status == self._plan.expect:
            if self._plan.follow != "nothing":
                self._accepted(number, answer)
        elif status in REFUSED_FOR_NOW and not rawhttp.has_header(answer, "retry-after"):
            self._ledger.hurry(number)

    def _accepted(self, number: int, answer: bytes) -> None:
        try:
            job = self._decode(rawhttp.body(answer))
        except msgspec.DecodeError:
            self._ledger.fail(number, BAD_ANSWER)
            return
        if self._plan.follow == "push":
            self._feeds.follow(number, job.job_id, job.stream_url)
        elif not self.ids.put(number, job.job_id):
            self._ledger.fail(number, BAD_ANSWER)

    def _ended(self, number: int, record: Record) -> None:
        self._ledger.end(number, record, time.monotonic() - self.start_s)
