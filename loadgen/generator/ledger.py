"""What is noted of each request while a run goes on, in arrays as long as its schedule. Pure.

1. A note costs a run as little as can be, since the generator shares its cores with what it measures: a number is put
   into its place, and what it comes to is worked out once all is over (`loadgen.generator.summary`).
2. Times are seconds from the start of the run, nan for what did not happen. With a million requests all arrays
   together take about 50 MB.
3. Requests from ``first`` on are past the warm-up and counted. The others are noted as well, since their jobs are in
   the system when the count begins.
4. What goes wrong with a request is counted once, by kind.
"""

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Final

from loadgen.generator.jobrecord import DONE, BatchCount, Record

NO_ANSWER: Final = "no_answer"
NOT_ENDED: Final = "not_ended"
PUSH_LOST: Final = "push_lost"
PUSH_REFUSED: Final = "push_refused"
PUSH_ELSEWHERE: Final = "push_elsewhere"
NO_CONNECTION: Final = "no_connection"
CONNECTION_LOST: Final = "connection_lost"
BAD_ANSWER: Final = "bad_answer"
HURRIED: Final = "hurried"
ACCEPTED: Final = 202


class Ledger:
    """The notes of one run; ``due_s`` are its due times, ``expect`` is the status of what was accepted."""

    def __init__(self, due_s: Sequence[float], *, warm_s: float, expect: int = ACCEPTED) -> None:
        self._expect = expect
        empty = [math.nan] * len(due_s)
        self.due_s = array("d", due_s)
        self.sent_s = array("d", empty)
        self.accepted_s = array("d", empty)
        self.ended_s = array("d", empty)
        self.stored_ms = array("d", empty)
        self.done = bytearray(len(due_s))
        self.first = sum(due < warm_s for due in due_s)
        self.errors: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.batches = BatchCount()
        self.cached = 0
        # Of the whole run, its warm-up included.
        self.sent = self.accepted = self.ended = self.failed = 0

    def send(self, number: int, now_s: float) -> None:
        """Note that a request was sent, or would have been had anybody taken it."""
        self.sent_s[number] = now_s
        self.sent += 1

    def answer(self, number: int, status: int, now_s: float) -> None:
        """Note an answer."""
        if status == self._expect:
            self.accepted_s[number] = now_s
            self.accepted += 1
        else:
            self.fail(number, str(status))

    def fail(self, number: int, kind: str) -> None:
        """Count what went wrong."""
        self.failed += 1
        if number >= self.first:
            self.errors[kind] += 1

    def hurry(self, number: int) -> None:
        """Count a refusal that does not say when to come back."""
        if number >= self.first:
            self.errors[HURRIED] += 1

    def end(self, number: int, record: Record, now_s: float) -> None:
        """Note a job's final record, which we have, or had been stored, by then."""
        self.ended_s[number] = now_s
        self.ended += 1
        done = record.status == DONE
        self.done[number] = done
        if number < self.first:
            return
        self.statuses[record.status] += 1
        if done:
            self.stored_ms[number] = record.stored_ms
            self.batches.add(record)
            self.cached += record.cached
