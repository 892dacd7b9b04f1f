"""The one loop of a batcher: from deliveries to batches to stored results.

A delivery becomes an item of the window as soon as it arrives, tokenised. Whenever the engine is free the policy says
whether the next batch closes; while that batch computes, the window fills. A batch is started in the store, run, and
settled: results stored and announced first, messages acked last. Settling goes on beside the next batch.

One bad job fails alone. A batch that raises, or takes the engine down, is split by halves until the culprit stands
alone; attempts are charged only then. What a batch's mates cost is another run.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from batcher.engine import BatchRaised, Engine, EngineLost
from batcher.policy import CloseReason, Policy, View, Wait
from batcher.settling import Batch, Settler
from batcher.tally import Tally
from batcher.tokenizer import InputRefused, TextTokenizer
from batcher.window import Item, Window
from inferq.errors import Undecodable
from inferq.jobs import ErrorCode
from inferq.messages import Delivery, decode_job
from inferq.steps import Moved, Origin
from inferq.store import wall_ms

# Batches in hand: one that computes, one that is begun, one whose results are on their way to the store.
AT_ONCE: Final = 3

_log = structlog.get_logger(__name__)


class Worker:
    """Runs batches until it is stopped; ``clock`` gives seconds that never go back."""

    def __init__(
        self,
        *,
        window: Window,
        policy: Policy,
        tokenizer: TextTokenizer,
        engine: Engine,
        settler: Settler,
        tally: Tally,
        clock: Callable[[], float],
    ) -> None:
        self._window, self._policy, self._tokenizer = window, policy, tokenizer
        self._engine, self.settler, self._tally, self._clock = engine, settler, tally, clock
        self._settling = asyncio.TaskGroup()
        self._changed = asyncio.Event()
        self._refused: deque[tuple[Delivery, Origin | None, ErrorCode, str]] = deque()
        self._burying: set[str] = set()
        self._running: dict[str, Item] = {}
        self._begun = 0
        self._turn = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._stopping = False

    @property
    def held(self) -> list[str]:
        """Ids of the jobs in our hands."""
        refused = [origin.job.job_id for _, origin, *_rest in self._refused if origin is not None]
        return [*(item.job_id for item in self._window.items), *self._running, *refused, *self._burying]

    @property
    def idle(self) -> bool:
        """Whether nothing is in our hands."""
        return not (self._running or self._window.items or self._refused or self._burying)

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery in; called by the consumer."""
        try:
            job = decode_job(delivery.body)
        except Undecodable as error:
            self._refuse(delivery, None, ErrorCode.UNDECODABLE, error.reason)
            return
        self._tally.saw(delivery.queue, job.created_ms)
        known = self._running.get(job.job_id) or self._window.get(job.job_id)
        if known is not None:
            # The same job once more: a redelivery, or a second message. One run settles both.
            known.deliveries.append(delivery)
            return
        origin = Origin(job=job, queue=delivery.queue, message=delivery.body)
        begun = self._clock()
        try:
            encoded = self._tokenizer.encode(job.text)
        except InputRefused as error:
            self._refuse(delivery, origin, ErrorCode.INVALID_INPUT, error.reason)
            return
        now = self._clock()
        self._window.add(
            Item(
                origin=origin,
                deliveries=[delivery],
                ids=encoded.ids,
                truncated=encoded.truncated,
                arrived_s=begun,
                arrived_ms=wall_ms() - (now - begun) * 1000,
                tokenize_ms=(now - begun) * 1000,
            )
        )
        self._changed.set()

    async def run(self) -> None:
        """Run batches until `stop`; returns once what was run is settled."""
        async with asyncio.TaskGroup() as self._settling:
            await self._loop()

    async def _loop(self) -> None:
        while not self._stopping:
            while self._refused:
                self._settling.create_task(self._bury(*self._refused.popleft()), name="refuse")
            if self._begun == 0 and (suspect := self._window.take_suspect()) is not None:
                self._begin([suspect], CloseReason.SPLIT)
                continue
            now = self._clock()
            decision = self._policy.decide(self._view(), now)
            if isinstance(decision, Wait):
                await self._wait(None if decision.until_s is None else decision.until_s - now)
            elif self._may_begin():
                self._begin(self._window.take(), decision.reason)
            else:
                await self._wait(None)

    def _may_begin(self) -> bool:
        """Whether a batch may be begun now: when none is, or one that gains nothing by waiting.

        To start a batch in the store takes a few milliseconds, in which the engine would be idle. A batch that is full
        of interactive jobs is therefore begun while another computes: no more jobs fit in, and none comes before them.
        """
        return self._begun == 0 or (
            self._begun == 1 and self._window.interactive >= self._window.max_batch_size
        )

    def _begin(self, items: Sequence[Item], reason: CloseReason) -> None:
        self._begun += 1
        self._running |= {item.job_id: item for item in items}
        self._settling.create_task(self._run_batch(items, reason), name="batch")

    def stop(self) -> None:
        """Begin no further batch; `run` returns once the present one has ended."""
        self._stopping = True
        self._changed.set()

    async def give_back(self) -> None:
        """Let others have everything that was not run."""
        waiting = [delivery for item in self._window.items for delivery in item.deliveries]
        refused = [delivery for delivery, *_ in self._refused]
        await self.settler.give_back(list(self._running.values()), [*waiting, *refused])

    def _refuse(self, delivery: Delivery, origin: Origin | None, code: ErrorCode, reason: str) -> None:
        self._refused.append((delivery, origin, code, reason))
        self._changed.set()

    def _view(self) -> View:
        return View(
            jobs=len(self._window),
            oldest_at_s=self._window.oldest_at_s,
            tokens_full=self._window.tokens_full,
        )

    async def _wait(self, timeout_s: float | None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _run_batch(self, items: Sequence[Item], reason: CloseReason) -> None:
        """Start a batch in the store and run what may run, when the engine is free; then settle it."""
        async with self._slots:
            try:
                done = await self._start_and_run(items, reason)
            finally:
                self._begun -= 1
                self._changed.set()
            await self._settle(done)

    async def _start_and_run(self, items: Sequence[Item], reason: CloseReason) -> list[Batch]:
        live, unburied = await self.settler.start(items)
        for item, moved in unburied:
            self._settling.create_task(self._bury_failed(item, moved), name="bury")
        kept = [*live, *(item for item, _ in unburied)]
        self._let_go([item for item in items if item not in kept])
        live = self._without_suspects(live)
        if not live:
            return []
        async with self._turn:
            # What was begun and not run when we stop is given back.
            return [] if self._stopping else await self._execute(live, reason)

    async def _settle(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            await self.settler.finish(batch)
            self._let_go(batch.items)

    def _let_go(self, items: Sequence[Item]) -> None:
        """Be done with items. A delivery that came in the meantime and is not settled begins anew."""
        for item in items:
            self._running.pop(item.job_id, None)
            for delivery in filter(self.settler.consumer.held, item.deliveries):
                self.deliver(delivery)

    async def _execute(self, items: Sequence[Item], reason: CloseReason) -> list[Batch]:
        """Run items, splitting by halves where they fail; return the batches that have results."""
        closed_ms = wall_ms()
        try:
            answer = await self._engine.run([item.ids for item in items])
        except BatchRaised as error:
            if len(items) == 1:
                self._settling.create_task(self._fail_alone(items[0], str(error)), name="fail")
                return []
            self._tally.split()
        except EngineLost as error:
            if len(items) == 1:
                self._settling.create_task(self._charge(items[0], error), name="charge")
                return []
            self._tally.split()
            _log.warning("worker.batch_lost", jobs=len(items), hung=error.hung)
        else:
            batch = Batch(
                items=list(items), answer=answer, closed_ms=closed_ms, ended_ms=wall_ms(), reason=reason
            )
            self._tally.ran(batch)
            return [batch]
        half = (len(items) + 1) // 2
        first = await self._execute(items[:half], CloseReason.SPLIT)
        if self._stopping:
            # What is left of a split is given back: others can run it, and we have seconds.
            return first
        return [*first, *await self._execute(items[half:], CloseReason.SPLIT)]

    def _without_suspects(self, live: list[Item]) -> list[Item]:
        """Set those apart that crashed an engine before they came to us; they run alone, as all suspects do."""
        if len(live) == 1:
            return live
        for item in live:
            if item.charges:
                item.suspect = True
                del self._running[item.job_id]
                self._window.add(item)
        return [item for item in live if not item.suspect]

    async def _bury(self, delivery: Delivery, origin: Origin | None, code: ErrorCode, reason: str) -> None:
        """Refuse a message. Beside the loop, like all that waits for a dead letter to be kept: a broker that takes no
        publishes must not keep us from draining its queues."""
        job_id = origin.job.job_id if origin is not None else ""
        self._burying.add(job_id)
        try:
            await self.settler.refuse(delivery, origin, code, reason)
        finally:
            self._burying.discard(job_id)

    async def _bury_failed(self, item: Item, moved: Moved) -> None:
        await self.settler.bury(item, moved)
        self._let_go([item])

    async def _fail_alone(self, item: Item, detail: str) -> None:
        await self.settler.fail(item, ErrorCode.INFERENCE_FAILED, detail)
        self._let_go([item])

    async def _charge(self, item: Item, error: EngineLost) -> None:
        """Count an attempt against a job that took the engine down alone."""
        code = ErrorCode.ENGINE_TIMEOUT if error.hung else ErrorCode.ENGINE_CRASHED
        if await self.settler.charge(item, code, str(error)):
            self._running.pop(item.job_id, None)
            item.suspect = True
            self._window.add(item)
            self._changed.set()
        else:
            self._let_go([item])
