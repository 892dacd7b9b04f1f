"""Sends texts of any number and follows their jobs; what is under way at once is bounded by a window.

A text that was given as such is submitted by itself, lines together, up to 256 in a request. A place in the window is
taken when a text is sent and free when its outcome is printed, so a printer that is slow slows the reading too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from inferq.cli.asked import INVALID, Asked, Unreadable
from inferq.cli.outcomes import Fault, Outcome, shown
from inferq.cli.window import Window
from inferq.sdk.batches import Options, paired

if TYPE_CHECKING:
    from inferq import AsyncClient, Job, Record
    from inferq.sdk.errors import ClientError

BATCH: Final = 256
# Four requests' worth: one is printed and one is sent while two are run.
PLACES: Final = 4 * BATCH

Items = Sequence[Asked | Unreadable]
Show = Callable[[Sequence[Outcome]], Awaitable[None]]


class Sending:
    """One run over a connection; ``show`` prints outcomes, in the order of the texts where ``in_order`` says so."""

    def __init__(self, client: "AsyncClient", show: Show, *, in_order: bool, places: int = PLACES) -> None:
        self._client, self._show = client, show
        self._window: Window[Outcome] = Window(places, in_order=in_order)
        self._ready: list[Outcome] = []
        self._to_print, self._freed = asyncio.Event(), asyncio.Event()
        self._most = min(BATCH, places)
        self.submitting = self.accepted = self.printed = self.failed = 0
        self.unreachable = False

    @property
    def unprinted(self) -> int:
        """Jobs that were accepted and whose outcome is not printed."""
        return self.accepted - self.printed

    async def run(self, chunks: AsyncIterator[Items]) -> None:
        """Send all, and return when everything is printed; nothing more is read once the API is out of reach.

        Raises:
            KeyRefused, Forbidden: it is so for every text.
        """
        async with asyncio.TaskGroup() as group:
            printing = group.create_task(self._print())
            async with asyncio.TaskGroup() as sending:
                async for items in chunks:
                    for first in range(0, len(items), self._most):
                        piece = items[first : first + self._most]
                        await self._room(len(piece))
                        if self.unreachable:
                            break
                        places = [self._window.take() for _ in piece]
                        sending.create_task(self._send(piece, places))
                    if self.unreachable:
                        break
            await self._room(self._window.places)
            printing.cancel()

    async def _room(self, places: int) -> None:
        """Wait until so many places are free; what waits to be printed still has its own."""
        while self._window.free - len(self._ready) < places:
            self._freed.clear()
            await self._freed.wait()

    async def _print(self) -> None:
        while True:
            await self._to_print.wait()
            self._to_print.clear()
            outcomes = list(self._ready)
            await self._show(outcomes)
            del self._ready[: len(outcomes)]
            self.printed += sum(outcome.job_id is not None for outcome in outcomes)
            self.failed += sum(not outcome.done for outcome in outcomes)
            self._freed.set()

    def _settle(self, place: int, outcome: Outcome) -> None:
        self._ready += self._window.settle(place, outcome)
        if self._ready:
            self._to_print.set()

    async def _send(self, items: Items, places: Sequence[int]) -> None:
        """Submit texts that came together, each kind of options by itself, and follow them to their ends."""
        alike: dict[Options, list[tuple[int, Asked]]] = {}
        for place, item in zip(places, items, strict=True):
            if isinstance(item, Unreadable):
                fault = Fault(code=INVALID, detail=item.detail)
                self._settle(place, Outcome(text=shown(item.text), fault=fault))
            else:
                alike.setdefault(item.options, []).append((place, item))
        if len(alike) == 1:
            await self._submit(*alike.popitem())
            return
        async with asyncio.TaskGroup() as group:
            for options, texts in alike.items():
                group.create_task(self._submit(options, texts))

    async def _submit(self, options: Options, texts: Sequence[tuple[int, Asked]]) -> None:
        begun_s = time.perf_counter()
        self.submitting += len(texts)
        outcomes = await self._outcomes(options, [asked for _, asked in texts])
        self.submitting -= len(texts)
        accepted_ms = (time.perf_counter() - begun_s) * 1000
        jobs: list[Job] = []
        following: dict[str, tuple[int, Outcome]] = {}
        for (place, asked), outcome in zip(texts, outcomes, strict=True):
            text = asked.text
            if isinstance(outcome, Fault):
                self.unreachable |= outcome.code == "unreachable"
                self._settle(place, Outcome(text=shown(text), fault=outcome, accepted_ms=accepted_ms))
            else:
                self.accepted += 1
                kept = Outcome(text=shown(text), job_id=outcome.job_id, accepted_ms=accepted_ms)
                following[outcome.job_id] = place, kept
                jobs.append(outcome)
        if jobs:
            await self._follow(jobs, following, begun_s)

    async def _outcomes(self, options: Options, texts: Sequence[Asked]) -> "list[Job | Fault]":
        from inferq import ClientError, Forbidden, KeyRefused, Refusal

        asked = options.fields
        if len(texts) > 1:
            pairs = [paired(one.text, one.text_pair) for one in texts]
            found = await self._client.submit_many(pairs, **asked)
            return [fault_of(one.error) if isinstance(one, Refusal) else one for one in found]
        try:
            return [await self._client.submit(texts[0].text, text_pair=texts[0].text_pair, **asked)]
        except (KeyRefused, Forbidden):
            raise
        except ClientError as error:
            return [fault_of(error)]

    async def _follow(
        self, jobs: "Sequence[Job]", following: dict[str, tuple[int, Outcome]], begun_s: float
    ) -> None:
        from inferq import ClientError, KeyRefused

        fault = Fault(code="unknown", detail="nothing was said of it")
        try:
            async for record in self._client.stream(jobs):
                place, kept = following.pop(record.job_id)
                result_ms = (time.perf_counter() - begun_s) * 1000
                self._settle(place, ended(kept, record, result_ms))
        except KeyRefused:
            raise
        except ClientError as error:
            fault = fault_of(error)
        for place, kept in following.values():
            self._settle(place, lost(kept, fault))


def ended(kept: Outcome, record: "Record", result_ms: float) -> Outcome:
    """Return the outcome of a job that has ended."""
    return Outcome(
        text=kept.text,
        job_id=kept.job_id,
        record=record,
        accepted_ms=kept.accepted_ms,
        result_ms=result_ms,
    )


def lost(kept: Outcome, fault: Fault) -> Outcome:
    """Return the outcome of a job whose end cannot be known."""
    return Outcome(text=kept.text, job_id=kept.job_id, fault=fault, accepted_ms=kept.accepted_ms)


def fault_of(error: "ClientError") -> Fault:
    """Return what an error says."""
    return Fault(code=error.code, detail=error.detail)
