"""New jobs on RabbitMQ: record first, message second, and an end to the record when the message was not taken."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker.base import TakenBack
from inferq.errors import HttpError, QueueFull, Unavailable
from inferq.gather import Gather
from inferq.jobs import ErrorCode
from inferq.steps import Origin, fail
from inferq.store import ID_TAKEN, Store
from inferq.submits import Adopted, adopt, disown

# How often the end of a record whose publish failed is tried; about four seconds.
END_TRIES: Final = 6
END_AT_CLOSE_S: Final = 1.0
_GIVEN_UP: Final = "the submit was given up"

_log = structlog.get_logger(__name__)

Publish = Callable[[Sequence[Origin]], Awaitable[list[HttpError | None]]]
"""Publishes messages in one go; for each None once it is confirmed, or why not."""


class RabbitSubmits:
    """Records and publishes; what of a submit fails is ended behind it."""

    def __init__(self, store: Store, publish: Publish) -> None:
        self._store, self._publish = store, publish
        self._records = Gather[Origin, bool](store.create_many)
        self._ending: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Give the ends that are under way a moment."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_AT_CLOSE_S)
            # The sweeper finds what is left.
            await end(*self._ending)

    async def make(self, origins: Sequence[Origin], *, resumed: bool) -> list[HttpError | None]:
        """Make record and message of each; for each None once both are safe, or why not."""
        refusals: dict[int, HttpError | None] = dict.fromkeys(range(len(origins)), Unavailable(_GIVEN_UP))
        # Those whose records are ours: to be ended unless they come through.
        ours = list(refusals)
        try:
            ours = await self._record(origins, refusals, resumed=resumed)
            answers = await self._publish([origins[number] for number in ours])
            refusals.update(zip(ours, answers, strict=True))
        except (QueueFull, Unavailable) as error:
            # The records may be there although the reply is not.
            refusals.update(dict.fromkeys(ours, error))
        finally:
            if failed := [number for number in ours if refusals[number] is not None]:
                # Not awaited here: the caller's answer has a deadline of its own.
                task = asyncio.create_task(
                    self._end([(origins[number], str(refusals[number])) for number in failed])
                )
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        return list(refusals.values())

    async def _record(
        self, origins: Sequence[Origin], refusals: dict[int, HttpError | None], *, resumed: bool
    ) -> list[int]:
        """Make the records and return which are to be published; notes what becomes of the others."""
        if len(origins) == 1:
            created = [await self._records.ask(origins[0])]
        else:
            created = await self._store.create_many(origins)
        ours = []
        for number, made in enumerate(created):
            if made:
                ours.append(number)
            elif not resumed:
                refusals[number] = Unavailable(ID_TAKEN)
            else:
                origin = origins[number]
                match await adopt(self._store, origin.job.job_id, origin.submit):
                    case Adopted.UNPUBLISHED:
                        ours.append(number)
                    case Adopted.ACCEPTED:
                        refusals[number] = None
                    case Adopted.TAKEN_BACK:
                        refusals[number] = TakenBack("the first submit was taken back")
        return ours

    async def _end(self, failed: Sequence[tuple[Origin, str]]) -> None:
        """End the records of jobs that were refused, so that they do not stay queued."""
        backoff = Backoff()
        claimed = {origin.job.job_id: origin.submit for origin, _ in failed if origin.submit}
        details = {origin.job.job_id: detail for origin, detail in failed}
        for _ in range(END_TRIES):
            with suppress(Unavailable):
                for job_id, maker in tuple(claimed.items()):
                    # One that was taken over meanwhile has another maker, which may have promised it.
                    if not await disown(self._store, job_id, maker):
                        del details[job_id]
                    del claimed[job_id]
                await self._store.apply(
                    [fail(job_id, ErrorCode.PUBLISH_FAILED, detail) for job_id, detail in details.items()]
                )
                return
            await asyncio.sleep(backoff.next_s())
        # The sweeper finds a record without a message and publishes it: the job runs though nobody was promised it.
        for job_id in details:
            _log.warning("broker.unpublished_record_left", job_id=job_id)
