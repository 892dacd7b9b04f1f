"""The one loop of a batcher: from deliveries to batches to stored results.

The planner decides, this shell does it: a delivery becomes an item of the window as soon as it arrives, a batch is
started in the store, run when it gets its lanes, and settled: results stored and announced first, messages acked last.
Settling goes on beside the next batches.

Equal inputs run once. Those that wait go into one batch as twins of one row; one that arrives while its equal runs
follows it; one whose answer is kept is answered at once. When a row fails, its equals are run by themselves.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from math import inf
from typing import Any, Final

from batcher.burying import Undertaker
from batcher.enginecircuit import EngineCircuit
from batcher.failing import Failing
from batcher.followers import Followers
from batcher.handover import HandOver
from batcher.intake import Found, Intake, Refusal
from batcher.item import Item, apart
from batcher.lanes import Turn
from batcher.ledger import Ledger
from batcher.outcome import Outcome
from batcher.patience import Patience
from batcher.planner import Planner, Start
from batcher.recess import Recess
from batcher.runner import Runner, compose_anew
from batcher.settling import Batch, Settler, found_outcome
from batcher.tally import Tally
from batcher.task import Task
from inferq.background import heard
from inferq.broker.base import Consumer
from inferq.messages import Delivery

# Batches in hand for each lane: one that computes, one that is begun, one whose results are on their way to the store.
AT_ONCE: Final = 3


class Worker:
    """Runs batches until it is stopped; ``clock`` gives seconds that never go back.

    ``patience`` says how long a batch may compute, ``circuit`` whether any may: while the engine has its rest, nothing
    is consumed, and what was not run goes back to the queue for others to take.
    """

    def __init__(
        self,
        *,
        planner: Planner[Item],
        intake: Intake,
        task: Task,
        ledger: Ledger,
        settler: Settler,
        undertaker: Undertaker,
        tally: Tally,
        circuit: EngineCircuit,
        patience: Patience,
        clock: Callable[[], float],
    ) -> None:
        self._planner, self._intake, self._ledger, self._settler = planner, intake, ledger, settler
        self._failing = Failing(
            undertaker, let_go=self._let_go, again=lambda item: self._wait_again([item], alone=True)
        )
        self._tally, self._clock, self._circuit = tally, clock, circuit
        self._changed = asyncio.Event()
        self._runner = Runner(
            planner=planner,
            task=task,
            tally=tally,
            circuit=circuit,
            patience=patience,
            clock=clock,
            changed=self._changed.set,
        )
        circuit.turned = self._runner.heed
        self._tasks, self._refused = asyncio.TaskGroup(), deque[Refusal]()
        self._found: list[tuple[Item, Outcome]] = []
        # Everything that is in our hands and not in the window.
        self._out: dict[str, Item] = {}
        self._hand_over = HandOver(planner, ledger, settler, self._out)
        self._recess = Recess(circuit, ledger, settler, take=self._hand_over.take_out, let_go=self._let_go)
        self._followers = Followers()
        self._slots = asyncio.Semaphore(AT_ONCE * planner.lanes)
        self._stopping = False

    @property
    def held(self) -> list[str]:
        """Ids of the jobs in our hands that have a record."""
        refused = [one.origin.job.job_id for one in self._refused if one.origin is not None]
        # Nobody could look after those that came past the queue.
        _, ours = apart([*self._planner.window.jobs, *self._out.values()])
        return [*(item.job_id for item in ours), *refused, *self._failing.refused]

    @property
    def in_hand(self) -> int:
        """How many jobs are in our hands, wherever they came from."""
        return sum(map(len, (self._out, self._planner.window.jobs, self._refused, self._failing.refused)))

    def attach(self, consumer: Consumer) -> None:
        """Name the consumer whose deliveries are settled; comes before `run`."""
        self._ledger.attach(consumer)

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery in; called by the consumer."""
        origin = self._intake.read(delivery)
        if isinstance(origin, Refusal):
            self._refuse(origin)
            return
        job_id = origin.job.job_id
        known = self._out.get(job_id) or self._planner.window.get(job_id)
        if known is not None:
            # The same job once more: a redelivery, or a second message. One run settles both.
            known.deliveries.append(delivery)
            return
        admitted = self._intake.admit(delivery, origin)
        if isinstance(admitted, Refusal):
            self._refuse(admitted)
        else:
            self.take(admitted)

    def take(self, admitted: Item | Found) -> None:
        """Take a job in hand that is admitted, from the queue or past it."""
        if isinstance(admitted, Found):
            self._out[admitted.item.job_id] = admitted.item
            self._found.append((admitted.item, found_outcome(admitted.result, admitted.lookup_ms)))
            self._changed.set()
        elif self._followers.follow(admitted):
            self._tally.twin()
            self._out[admitted.job_id] = admitted
        else:
            self._wait_in_window(admitted)

    def abandon(self, item: Item) -> None:
        """Do no more for a job that came past the queue: nobody waits for it."""
        item.abandoned = True
        self._planner.window.remove(item)
        self._changed.set()

    async def run(self) -> None:
        """Run batches until `stop`; returns once what was run is settled."""
        async with asyncio.TaskGroup() as self._tasks:
            recess = self._tasks.create_task(self._recess.keep(), name="recess")
            while not self._stopping:
                self._changed.clear()
                now_s = self._clock()
                self._pass_on(now_s)
                if self._circuit.rests:
                    self._recess.heed()
                    await heard(self._changed, self._planner.next_hopeless_s() - now_s)
                    continue
                decision = self._planner.next(now_s)
                if isinstance(decision, Start):
                    self._begin(decision.turn, now_s)
                    continue
                self._runner.grant()
                until_s = inf if decision.until_s is None else decision.until_s
                await heard(self._changed, min(until_s, self._planner.next_hopeless_s()) - now_s)
            recess.cancel()

    def stop(self) -> None:
        """Begin no further batch; `run` returns once those that compute have ended."""
        self._stopping = True
        self._runner.stop()

    async def give_back(self) -> None:
        """Let others have everything that was not run."""
        await self._hand_over.everything([one.delivery for one in self._refused])

    async def let_go(self, queues: Collection[str]) -> None:
        """Let others have what came out of these queues and waits for a batch."""
        await self._hand_over.of(queues)
        self._changed.set()

    def _pass_on(self, now_s: float) -> None:
        """See to what needs no batch: refusals, answers that are known, jobs that have become hopeless."""
        while self._refused:
            self._spawn(self._failing.refuse(self._refused.popleft()), "refuse")
        if self._found:
            found, self._found = self._found, []
            self._spawn(self._answer(found), "answer")
        if hopeless := self._planner.hopeless(now_s):
            for item in hopeless:
                self._planner.window.remove(item)
                self._out[item.job_id] = item
            self._spawn(self._expire(hopeless), "expire")

    def _wait_in_window(self, item: Item) -> None:
        if not item.abandoned:
            self._planner.add(item, self._clock())
        self._changed.set()

    def _refuse(self, refusal: Refusal) -> None:
        self._refused.append(refusal)
        self._changed.set()

    def _begin(self, turn: Turn[Item], now_s: float) -> None:
        items = [*turn.jobs, *turn.twins]
        self._out |= {item.job_id: item for item in items}
        self._followers.lead(turn)
        self._tally.closed(now_s - min(item.arrived_s for item in items))
        self._spawn(self._run_batch(turn), "batch")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.create_task(work, name=name)

    async def _run_batch(self, turn: Turn[Item]) -> None:
        """Start a batch in the store and run what may run, when it has its lanes; then settle it."""
        keys = [item.key for item in turn.jobs if item.key is not None]
        failed: list[str | None] = []
        async with self._slots:
            try:
                await self._start(turn)
            finally:
                if not turn.jobs:
                    self._runner.off(turn)
            if turn.jobs:
                failed = await self._execute(turn)
        for key in keys:
            # Nobody answered them: their equal failed, or ended before it ran.
            self._wait_again(self._followers.leave(key), alone=key in failed)

    async def _start(self, turn: Turn[Item]) -> None:
        """Start a turn's jobs in the store, and drop from it those that are not to run: all, once we stop."""
        items = [*turn.jobs, *turn.twins]
        turn.jobs, turn.twins = [], []
        if self._stopping:
            return
        begun_s = self._clock()
        live, unburied = await self._settler.start(items)
        self._planner.started(self._clock() - begun_s)
        for item, moved in unburied:
            self._spawn(self._failing.bury(item, moved), "bury")
        kept = {item.job_id for item in live} | {item.job_id for item, _ in unburied}
        self._let_go([item for item in items if item.job_id not in kept])
        compose_anew(turn, self._without_suspects(live))

    def _without_suspects(self, live: list[Item]) -> list[Item]:
        """Set those apart that crashed an engine before they came to us; they run alone, as all suspects do."""
        if len(live) == 1:
            return live
        for item in live:
            if item.charges:
                self._wait_again([item], alone=True)
        return [item for item in live if not item.suspect]

    async def _execute(self, turn: Turn[Item]) -> list[str | None]:
        """Run a turn and see to what came of it; return the keys of those that failed."""
        findings = await self._runner.run(turn)
        for item, error in findings.raised:
            self._spawn(self._failing.fail(item, str(error)), "fail")
        for item, lost in findings.guilty:
            self._spawn(self._failing.charge(item, lost), "charge")
        if findings.late:
            self._spawn(self._expire(findings.late), "expire")
        failed = [item.key for item, _ in (*findings.raised, *findings.guilty)]
        self._wait_again([*findings.twins, *findings.unsure], alone=True)
        # While the engine rests that is a wait for the way back.
        self._wait_again(findings.unrun, alone=False)
        for batch in findings.batches:
            await self._settle(batch)
        return failed

    def _wait_again(self, items: Sequence[Item], *, alone: bool) -> None:
        """Let jobs wait for a batch once more. ``alone``: each by itself, as those that took the engine down do, and
        the equals of one that failed: they most likely will, at their own charge and without a search among others."""
        for item in items:
            self._out.pop(item.job_id, None)
            if alone:
                item.suspect, item.key = True, None
            self._wait_in_window(item)

    async def _settle(self, batch: Batch) -> None:
        ended_s = self._clock()
        said = await self._settler.finish(batch)
        self._planner.stored(self._clock() - ended_s)
        self._let_go([*batch.items, *batch.twins])
        for key, outcome in said.items():
            if followers := self._followers.leave(key):
                self._spawn(self._answer([(item, outcome) for item in followers]), "answer")

    async def _answer(self, found: list[tuple[Item, Outcome]]) -> None:
        unburied = await self._settler.answer(found)
        for item, moved in unburied:
            self._spawn(self._failing.bury(item, moved), "bury")
        kept = {item.job_id for item, _ in unburied}
        self._let_go([item for item, _ in found if item.job_id not in kept])

    async def _expire(self, items: Sequence[Item]) -> None:
        await self._settler.expire(items)
        self._let_go(items)

    def _let_go(self, items: Sequence[Item]) -> None:
        """Be done with items. A delivery that came in the meantime and is not settled begins anew."""
        for item in items:
            self._out.pop(item.job_id, None)
            for delivery in filter(self._ledger.consumer.held, item.deliveries):
                self.deliver(delivery)
