"""Submits: one text a request, or many.

Every submit has an idempotency key, so it may be repeated whatever became of the last try. Of a batch those inputs
alone are sent again that were refused for load; they make another request, under another key.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Final, TypeVar

from inferq.errors import first_of
from inferq.sdk import answers
from inferq.sdk.batches import Batch, Options, Text, body_of, check_key, join, key_of
from inferq.sdk.errors import BadRequest, ClientError, QuotaExceeded, RequestRefused, Unreachable
from inferq.sdk.http import Http, refusal_of
from inferq.sdk.patience import Patience, Retries
from inferq.sdk.shapes import Job, Refusal, several

# More would wait at the server, whose room for bodies is bounded.
BATCHES_AT_ONCE: Final = 4
_BATCH_TIMEOUT_S: Final = 30.0

_T = TypeVar("_T")
Outcomes = list[Job | Refusal | None]


class Submitting:
    """Makes jobs of texts; ``at_once`` bounds the requests under way, ``timeout_s`` how long each is tried."""

    def __init__(self, http: Http, *, timeout_s: float, at_once: int) -> None:
        self._http, self._timeout_s = http, timeout_s
        self._slots = asyncio.Semaphore(at_once)
        self._batch_slots = asyncio.Semaphore(min(BATCHES_AT_ONCE, at_once))

    async def one(self, body: bytes, key: str | None) -> Job:
        """Submit what a body asks for; raises `RequestRefused` or `Unreachable`."""
        headers = {"Idempotency-Key": _new_key() if key is None else check_key(key)}
        async with self._slots:
            response = await self._http.insist(
                "POST", "/v1/infer", for_s=self._timeout_s, content=body, headers=headers
            )
        return answers.accepted(response.status_code, response.content)

    async def many(
        self, texts: Iterable[Text] | AsyncIterable[Text], options: Options, key: str | None
    ) -> list[Job | Refusal]:
        """Submit texts and return what became of each, in order; raises `KeyRefused` or `Forbidden`."""
        key = _new_key() if key is None else check_key(key, many=True)
        outcomes: Outcomes = []
        patience = Patience(self._timeout_s, time.monotonic())
        try:
            async with asyncio.TaskGroup() as group:
                number, running, gave_up = 0, set[asyncio.Task[bool]](), False

                def ended(task: asyncio.Task[bool]) -> None:
                    nonlocal gave_up
                    self._batch_slots.release()
                    running.discard(task)
                    gave_up = gave_up or task.cancelled() or task.exception() is not None or task.result()

                async for bodies in _batches(texts, options):
                    await self._batch_slots.acquire()
                    if not running and not gave_up:
                        # Nobody had anything to accept while the texts were slow to come.
                        patience.renew(time.monotonic())
                    call = _Call(self._http, bodies, outcomes, patience, key, number)
                    task = group.create_task(call.run())
                    running.add(task)
                    task.add_done_callback(ended)
                    number += 1
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        return [outcome for outcome in outcomes if outcome is not None]


class _Call:
    """One batch of a call, until each of its inputs has become something."""

    def __init__(
        self,
        http: Http,
        bodies: list[bytes | BadRequest],
        outcomes: Outcomes,
        patience: Patience,
        key: str,
        number: int,
    ) -> None:
        self._http, self._outcomes = http, outcomes
        self._patience, self._key, self._number = patience, key, number
        self._first = len(outcomes)
        outcomes.extend([None] * len(bodies))
        self._bodies: dict[int, bytes] = {}
        for index, body in enumerate(bodies):
            if isinstance(body, BadRequest):
                self._settle(index, body)
            else:
                self._bodies[index] = body

    async def run(self) -> bool:
        """Send, and send again what may pass later; returns whether patience ended before everything was settled.

        What the key's quota does not let pass at once goes in parts.
        """
        left = list(self._bodies)
        retries, tries, most = Retries(self._patience), 0, len(left)
        while left:
            part, rest = left[:most], left[most:]
            error, asked_s = await self._try(part, tries)
            if isinstance(error, QuotaExceeded) and len(part) > 1:
                # So many at once may be more than can ever pass.
                most, tries = len(part) // 2, tries + 1
                continue
            refused: dict[int, RequestRefused] = {}
            if error is None or isinstance(error, list):
                # What is left was refused one by one, so the key has seen its answer.
                refused = dict(error or ())
                left, tries, most = [*refused, *rest], tries + 1, most * 2
            if error is None:
                continue
            last = error[-1][1] if isinstance(error, list) else error
            wait_s = retries.next_s(time.monotonic(), asked_s)
            if wait_s is None:
                for index in left:
                    self._settle(index, refused.get(index, last))
                return True
            await asyncio.sleep(wait_s)
        return False

    async def _try(
        self, left: list[int], tries: int
    ) -> tuple[ClientError | list[tuple[int, RequestRefused]] | None, float]:
        """Send once; returns what is to be tried again: the whole request, or some inputs; and the wait asked for."""
        try:
            response = await self._http.send(
                "POST",
                "/v1/infer/batch",
                content=join([self._bodies[index] for index in left]),
                headers={"Idempotency-Key": key_of(self._key, self._number, tries)},
                timeout_s=_BATCH_TIMEOUT_S,
            )
        except Unreachable as error:
            return error, 0.0
        after = response.headers.get("Retry-After")
        each = answers.batch(response.content, len(left), retry_after=after)
        if each is None:
            refusal = (
                answers.unreadable(response.status_code) if response.is_success else refusal_of(response)
            )
            if refusal.status in answers.OF_THE_KEY:
                raise refusal
            if response.status_code in answers.RETRIED:
                return refusal, refusal.pause_s
            for index in left:
                self._settle(index, refusal)
            return None, 0.0
        again: list[tuple[int, RequestRefused]] = []
        for index, outcome in zip(left, each, strict=True):
            if isinstance(outcome, RequestRefused) and outcome.status in answers.RETRIED:
                again.append((index, outcome))
            else:
                self._settle(index, outcome)
        if len(again) < len(left):
            self._patience.renew(time.monotonic())
        return (again or None), answers.retry_after_s(after)

    def _settle(self, index: int, outcome: Job | ClientError) -> None:
        place = self._first + index
        self._outcomes[place] = outcome if isinstance(outcome, Job) else Refusal(index=place, error=outcome)


async def _batches(
    texts: Iterable[Text] | AsyncIterable[Text], options: Options
) -> AsyncIterator[list[bytes | BadRequest]]:
    fields, batch = options.fields, Batch()
    async for text in each_of(several(texts, "texts")):
        body: bytes | BadRequest
        try:
            body = body_of(text, fields)
        except BadRequest as refused:
            body = refused
        if not batch.takes(body):
            yield batch.bodies
            batch = Batch()
        batch.add(body)
    if batch.bodies:
        yield batch.bodies


async def each_of(items: Iterable[_T] | AsyncIterable[_T]) -> AsyncIterator[_T]:
    """Iterate over either kind."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _new_key() -> str:
    return uuid.uuid4().hex
