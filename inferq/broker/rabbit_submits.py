"""New jobs on RabbitMQ: record first, message second, and an end to the record when the message was not taken.

All that come at about the same time share the call that makes their records. The confirm of a message then goes to its
caller directly: each await and each future between the two cost as much as the confirm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker.base import TakenBack, full
from inferq.broker.publisher import Returned
from inferq.broker.rooms import Rooms
from inferq.errors import HttpError, QueueFull, Unavailable
from inferq.gather import Asked, Gather
from inferq.jobs import ErrorCode
from inferq.steps import Origin, fail
from inferq.store import ID_TAKEN, Store
from inferq.submits import Adopted, adopt, disown

# How often the end of a record whose publish failed is tried; about four seconds.
END_TRIES: Final = 6
END_AT_CLOSE_S: Final = 1.0
# How many records are being ended at a time, as while Redis is away: twice what an ingress has under way.
MOST_ENDING: Final = 8192

_log = structlog.get_logger(__name__)

Send = Callable[[Origin, asyncio.Future[None]], None]
Again = Callable[[str, bytes, str], Awaitable[None]]
_Submit = Asked[Origin, None]


class RabbitSubmits:
    """Records and publishes; what of a submit fails is ended behind it.

    ``send`` publishes and has the future get the confirm, ``again`` publishes what came back as unroutable.
    """

    def __init__(self, store: Store, rooms: Rooms, send: Send, again: Again) -> None:
        self._store, self._rooms, self._send, self._again = store, rooms, send, again
        self._new = Gather[Origin, None](partial(self._make, resumed=False))
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Give what is under way a moment."""
        await self._new.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_AT_CLOSE_S)
            # The sweeper finds what is left.
            await end(*self._tasks)

    async def accept(self, origin: Origin) -> None:
        """Make record and message; raises `QueueFull` or `Unavailable`."""
        if not self._rooms.of(origin.queue).grant(1):
            raise full(origin, self._rooms.limit_jobs)
        await self._settled(origin, self._new.ask(origin))

    async def accept_many(self, origins: Sequence[Origin], *, resumed: bool) -> list[HttpError | None]:
        """Make records and messages in one go; for each None once both are safe, or why not."""
        rooms = [self._rooms.of(origin.queue) for origin in origins]
        granted = [bool(room.grant_again(1) if resumed else room.grant(1)) for room in rooms]
        loop = asyncio.get_running_loop()
        submits: list[_Submit] = [
            Asked(origin, loop.create_future())
            for origin, let_in in zip(origins, granted, strict=True)
            if let_in
        ]
        if submits:
            self._spawn(self._make_many(submits, resumed=resumed))
        answers: list[HttpError | None] = []
        try:
            for origin, future in submits:
                try:
                    await self._settled(origin, future)
                except (QueueFull, Unavailable) as error:
                    answers.append(error)
                else:
                    answers.append(None)
        finally:
            for origin, future in submits[len(answers) + 1 :]:
                self._give_up(origin, future)
        settled = iter(answers)
        return [
            next(settled) if let_in else full(origin, self._rooms.limit_jobs)
            for origin, let_in in zip(origins, granted, strict=True)
        ]

    async def _make_many(self, submits: Sequence[_Submit], *, resumed: bool) -> None:
        try:
            await self._make(submits, resumed=resumed)
        except Exception as error:
            # The records may be there although the reply is not.
            for _, future in submits:
                if not future.done():
                    future.set_exception(error)

    async def _make(self, submits: Sequence[_Submit], *, resumed: bool) -> None:
        """Make the records, and publish those that are there."""
        created = await self._store.create_many([origin for origin, _ in submits])
        begun: list[_Submit] = []
        for submit, made in zip(submits, created, strict=True):
            origin, future = submit
            if future.done():
                continue
            if made:
                self._send(origin, future)
            elif resumed:
                begun.append(submit)
            else:
                future.set_exception(_Foreign(ID_TAKEN))
        if begun:
            await self._adopt(begun)

    async def _adopt(self, begun: Sequence[_Submit]) -> None:
        """Take over submits that were begun before, and publish those that may not have been."""
        found = await adopt(self._store, [origin for origin, _ in begun])
        for (origin, future), what in zip(begun, found, strict=True):
            if future.done():
                continue
            if what is Adopted.UNPUBLISHED:
                self._send(origin, future)
            elif what is Adopted.ACCEPTED:
                future.set_result(None)
            else:
                future.set_exception(TakenBack("the first submit was taken back"))

    async def _settled(self, origin: Origin, future: asyncio.Future[None]) -> None:
        """Await a submit's outcome, and see to what it leaves behind."""
        room = self._rooms.of(origin.queue)
        try:
            try:
                await future
            except Returned:
                await self._again(origin.queue, origin.message, origin.job.job_id)
        except _Foreign as error:
            room.refused()
            raise Unavailable(error.detail) from None
        except BaseException as error:
            if isinstance(error, QueueFull):
                room.shut()
            room.refused()
            self._end_soon(origin, str(error) or "the submit was given up")
            raise
        room.accepted(origin.queue)

    def _give_up(self, origin: Origin, future: asyncio.Future[None]) -> None:
        """Let go of a submit that nobody waits for any more, be it done or not."""
        room = self._rooms.of(origin.queue)
        if future.done() and not future.cancelled() and future.exception() is None:
            room.accepted(origin.queue)
            return
        future.cancel()
        room.refused()
        self._end_soon(origin, "the submit was given up")

    def _end_soon(self, origin: Origin, detail: str) -> None:
        # Not awaited: the caller's answer has a deadline of its own. Beyond the bound it is the sweeper's.
        if len(self._tasks) < MOST_ENDING:
            self._spawn(self._end(origin, detail))

    async def _end(self, origin: Origin, detail: str) -> None:
        """End the record of a job that was refused, so that it does not stay queued."""
        backoff = Backoff()
        job_id, maker = origin.job.job_id, origin.submit
        for _ in range(END_TRIES):
            with suppress(Unavailable):
                # One that was taken over meanwhile has another maker, which may have promised it.
                if maker and not await disown(self._store, job_id, maker):
                    return
                maker = ""
                await self._store.move(fail(job_id, ErrorCode.PUBLISH_FAILED, detail))
                return
            await asyncio.sleep(backoff.next_s())
        # The sweeper finds a record without a message and publishes it: the job runs though nobody was promised it.
        _log.warning("broker.unpublished_record_left", job_id=job_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Foreign(Unavailable):
    """The id is that of another job, whose record is not ours to end."""
