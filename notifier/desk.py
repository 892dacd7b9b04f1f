"""Serves sessions: writes to those that were woken, works on what they say, takes out those that left, and counts."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import structlog

from inferq.background import end
from inferq.errors import Unauthorized
from inferq.feed import Feed
from inferq.keyring import KeyRing
from inferq.telemetry import Metrics
from notifier.closes import FAILED
from notifier.hub import Hub
from notifier.requests import Auth, ClientMessage, Subscribe, Unsubscribe
from notifier.session import Session
from notifier.subscriptions import Subscriptions
from notifier.writeorder import parted

REAP_STEPS: Final = 500
"""What is done in one turn of the loop for those that left; half a millisecond's work or less."""
# Of a message so much is decoded in a step.
STEP_BYTES: Final = 512

_log = structlog.get_logger(__name__)


class SessionDesk:
    """The sessions of one process, on one hub."""

    def __init__(self, feed: Feed, keys: KeyRing, metrics: Metrics, *, most_jobs: int) -> None:
        self.hub = Hub(feed.watch)
        self.subscriptions = Subscriptions(feed, self.hub, most_jobs=most_jobs)
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._woken: list[Session] = []
        self._reaping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._messages = self._bytes = self._coalesced = 0
        self._sent = metrics.counter("messages_sent", "Messages that were written to WebSockets")
        self._sent_bytes = metrics.counter("message_sent_bytes", "Bytes of the messages that were written")
        self._overflows = metrics.counter(
            "mailbox_overflows", "Clients closed as too slow: full mailbox, stalled, full process", "why"
        )
        self._merged = metrics.counter(
            "updates_coalesced", "Updates that a newer one of the same job replaced"
        )
        watching = metrics.gauge("subscriptions", "Jobs watched on WebSockets, counted for each connection")
        watching.set_function(lambda: self.hub.registrations)
        held = metrics.gauge("mailbox_held_bytes", "Bytes that wait to be written, shared ones counted once")
        held.set_function(lambda: self.hub.ledger.held_bytes)

    async def close(self) -> None:
        """End all work; the connections have ended."""
        await end(*self._tasks)

    def enter(self, session: Session) -> None:
        """Take a session."""
        self.hub.enter(session)

    def await_end(self, session: Session, job_id: str) -> None:
        """Let a session wait for one job's end."""
        self._start(session, self.subscriptions.subscribe(session, [job_id], {}))

    # What sessions ask for.

    def wake(self, session: Session) -> None:
        """Have a session served at the end of this turn."""
        self._woken.append(session)
        if len(self._woken) == 1:
            self._loop.call_soon(self._flush)

    def wrote(self, messages: int, size: int) -> None:
        """Count what was written."""
        self._messages += messages
        self._bytes += size

    def overflowed(self, why: str) -> None:
        """Count a client that was sent away because it is too slow."""
        self._overflows.labels(why).inc()

    def missing(self, session: Session, job_id: str) -> None:
        """Tell a client of an unknown job."""
        self.hub.note(session, "not_found", "no such job", job_id)

    def same_key(self, session: Session, key: str) -> bool:
        """Say whether a key is that of this session's caller."""
        try:
            caller = self._keys.caller_with(key)
        except Unauthorized:
            return False
        return caller.name == session.caller.name

    async def turn(self, text: bytes | None) -> None:
        """Wait for a turn to read a message: who says much waits for the others."""
        await self.subscriptions.turns.take(1 + len(text or b"") // STEP_BYTES)

    async def work(self, session: Session, message: ClientMessage) -> None:
        """Do what a message asks for."""
        match message:
            case Subscribe():
                await self.subscriptions.subscribe(session, message.job_ids, message.after)
            case Unsubscribe():
                await self.subscriptions.unsubscribe(session, message.job_ids)
            case Auth():
                raise AssertionError("a session sees to its key")

    def spawn(self, session: Session) -> asyncio.Task[None]:
        """Start to work on what a client has said."""
        return self._start(session, session.work())

    def left(self, session: Session) -> None:
        """Forget a session, piece by piece."""
        self.hub.leave(session)
        if not self._reaping:
            self._reaping = True
            self._loop.call_soon(self._reap)

    def _start(self, session: Session, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="session")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, session))
        return task

    def _ended(self, session: Session, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(session, error)

    def _failed(self, session: Session, error: BaseException) -> None:
        """End a session: a fault of ours costs one client its connection, and is not to be overheard."""
        _log.error("notifier.session_failed", exc_info=error)
        session.connection.close(FAILED, "internal error")

    def _flush(self) -> None:
        now_s = self._loop.time()
        now, self._woken = parted(self._woken, now_s)
        if self._woken:
            self._loop.call_soon(self._flush)
        for session in now:
            session.written_s = now_s
            try:
                session.flush()
            except Exception as error:
                self._failed(session, error)
        self._sent.inc(self._messages)
        self._sent_bytes.inc(self._bytes)
        self._merged.inc(self.hub.coalesced)
        self._messages = self._bytes = self.hub.coalesced = 0

    def _reap(self) -> None:
        # Not before it is done: whoever leaves after a fault in it has it tried again.
        self._reaping = False
        if self.hub.reap(REAP_STEPS):
            self._reaping = True
            self._loop.call_soon(self._reap)
