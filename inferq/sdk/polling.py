"""Polling, for jobs that are not pushed or of which nothing was heard for long; `Watchlist` says which, and when.

Few polls are under way at once. While there are few such jobs, the server is asked to hold some of them until the job
ends; where it does not, they are answered at once and come back after a while.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec

from inferq.sdk.errors import ClientError, Forbidden, JobNotFound, KeyRefused, RequestRefused, Unreachable
from inferq.sdk.http import REQUEST_TIMEOUT_S, Http, refusal_of
from inferq.sdk.records import Record, decode_record
from inferq.sdk.watchlist import Watchlist

POLLS_AT_ONCE: Final = 8
# Polls that the server holds; the other places are for jobs whose polls are answered at once.
HELD_AT_ONCE: Final = 4
LONG_POLL_S: Final = 20
_NO_HOLD_S: Final = 30.0
# Neither push nor polling has got an answer for so long.
GIVE_UP_S: Final = 300.0


class Owner(Protocol):
    """Who is told what came."""

    def take(self, record: Record) -> None:
        """Take a record."""

    def lose(self, job_id: str, error: ClientError) -> None:
        """There is no such job."""

    def fail_all(self, make: Callable[[], BaseException]) -> None:
        """Nothing will come of any job; ``make`` makes the error of one."""


class Polling:
    """Polls the jobs of a list."""

    def __init__(self, http: Http, watchlist: Watchlist, owner: Owner, *, give_up_s: float) -> None:
        self._http, self._list, self._owner, self._give_up_s = http, watchlist, owner, give_up_s
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._held = 0
        self._no_hold_until_s = 0.0
        self._answered_s = 0.0

    def wake(self) -> None:
        """The list has changed."""
        self._changed.set()

    def answered(self) -> None:
        """The deployment gave a sign of life."""
        self._answered_s = time.monotonic()

    def drop(self, job_id: str) -> None:
        """End a poll that nobody needs any more: one that is held would keep its place for long."""
        poll = self._polls.get(job_id)
        if poll is not None and poll is not asyncio.current_task():
            poll.cancel()

    async def run(self) -> None:
        """Poll what is due, until cancelled."""
        slots = asyncio.Semaphore(POLLS_AT_ONCE)
        try:
            while True:
                await slots.acquire()
                self._changed.clear()
                job_id = self._list.next_poll(time.monotonic())
                if job_id is not None:
                    poll = asyncio.create_task(self._poll(job_id), name="inferq-poll")
                    self._polls[job_id] = poll
                    poll.add_done_callback(partial(self._poll_ended, job_id, slots))
                    continue
                slots.release()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._list.next_poll_in_s(time.monotonic())):
                        await self._changed.wait()
        finally:
            polls = list(self._polls.values())
            for poll in polls:
                poll.cancel()
            if polls:
                await asyncio.wait(polls)

    def _poll_ended(self, job_id: str, slots: asyncio.Semaphore, poll: asyncio.Task[None]) -> None:
        slots.release()
        if self._polls.get(job_id) is poll:
            del self._polls[job_id]
        if not poll.cancelled() and (error := poll.exception()) is not None:
            # A fault of ours; nobody shall wait for what does not come.
            self._owner.fail_all(lambda: error)

    async def _poll(self, job_id: str) -> None:
        begun_s = time.monotonic()
        holds = (
            self._held < HELD_AT_ONCE
            and self._list.polled_jobs <= POLLS_AT_ONCE
            and begun_s >= self._no_hold_until_s
        )
        self._held += holds
        try:
            asked_s = await self._poll_once(job_id, LONG_POLL_S if holds else 0)
        finally:
            self._held -= holds
        now_s = time.monotonic()
        waited = holds and now_s - begun_s > LONG_POLL_S / 2
        self._list.polled(job_id, now_s, waited=waited, asked_s=asked_s)
        self._changed.set()

    async def _poll_once(self, job_id: str, hold_s: int) -> float:
        """Ask for a record; returns for how long not to ask again, where the server says so."""
        path = f"/v1/jobs/{job_id}" + (f"?wait={hold_s}" if hold_s else "")
        try:
            response = await self._http.send("GET", path, timeout_s=REQUEST_TIMEOUT_S + hold_s)
        except Unreachable as error:
            if time.monotonic() - self._answered_s > self._give_up_s:
                detail = error.detail
                self._owner.fail_all(lambda: Unreachable(detail))
            return 0.0
        self._answered_s = time.monotonic()
        if response.is_success:
            with suppress(msgspec.DecodeError):
                self._owner.take(decode_record(response.content))
            return 0.0
        refusal = refusal_of(response, job_id)
        if isinstance(refusal, JobNotFound):
            self._owner.lose(job_id, refusal)
        elif isinstance(refusal, KeyRefused | Forbidden):
            self._owner.fail_all(lambda: _copy(refusal))
        elif hold_s:
            # Perhaps it holds as many as it may, or does not hold at all.
            self._no_hold_until_s = time.monotonic() + _NO_HOLD_S
        return refusal.pause_s


def _copy(refusal: RequestRefused) -> RequestRefused:
    """Return an error of its own for each who waits: one that is raised twice gathers tracebacks."""
    return type(refusal)(refusal.code, refusal.detail, status=refusal.status, errors=refusal.errors)
