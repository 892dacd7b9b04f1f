"""The batcher on a virtual clock: the real planner, a cost instead of an engine. Pure, and the same for equal seeds.

A job arrives, waits in a queue of its kind, and enters the window when fewer than the prefetch are in the batcher's
hands. The planner says what to begin; a batch is started in the store, takes its lanes in the order of beginning,
computes for as long as the true cost says, and is stored. Not modelled: the loop's own time, and how lanes slow each
other down, other than by the cost that was measured on them.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from typing import Final

from batcher.cost import CostModel, Sample
from batcher.lanes import Turn
from batcher.outcomes import Batch, Outcome, Result, Status
from batcher.planner import Planner
from batcher.policy import Wait
from batcher.traffic import Arrival
from batcher.waiting import Waiting

# What a cost is learnt from before a simulation, as in a warm-up.
GRID_ROWS: Final = (1, 2, 4, 8, 16)
GRID_LENGTHS: Final = (8, 16, 32, 64)
# No shell is woken more finely than this.
TICK_S: Final = 1e-6

Truth = Callable[[int, int], float]
"""How long a batch of so many rows, padded to so many tokens, really takes (ms); `Cost.batch_ms` is one."""


def learnt(truth: Truth, rows: Iterable[int] = GRID_ROWS, lengths: Iterable[int] = GRID_LENGTHS) -> CostModel:
    """Return the cost model that a warm-up would fit to ``truth``, measured without noise."""
    lengths = tuple(lengths)
    return CostModel([Sample(rows=r, length=n, ms=truth(r, n)) for r in rows for n in lengths])


def simulate(
    planner: Planner[Waiting],
    arrivals: Iterable[Arrival],
    lane: Truth,
    *,
    wide: Truth | None = None,
    slo_ms: float = 200.0,
    start_ms: float = 0.0,
    store_ms: float = 0.0,
    noise: float = 0.0,
    queue_limit: int = 10_000,
    seed: int = 0,
) -> Result:
    """Run the arrivals through a fresh planner until each has ended.

    ``lane`` and ``wide`` are the true times on a lane and on all threads, ``start_ms`` and ``store_ms`` what the store
    takes for a batch before and after, ``noise`` the standard deviation of the logarithm of each time's factor.
    """
    return _Run(
        planner=planner,
        lane=lane,
        wide=wide or lane,
        slo_ms=slo_ms,
        start_s=start_ms / 1000,
        store_s=store_ms / 1000,
        noise=noise,
        queue_limit=queue_limit,
        drawn=random.Random(seed),
    ).run(arrivals)


@dataclass(kw_only=True)
class _Run:
    planner: Planner[Waiting]
    lane: Truth
    wide: Truth
    slo_ms: float
    start_s: float
    store_s: float
    noise: float
    queue_limit: int
    drawn: random.Random
    now_s: float = 0.0
    held: int = 0
    held_bulk: int = 0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    ties: "count[int]" = field(default_factory=count)
    queues: dict[bool, deque[Waiting]] = field(default_factory=lambda: {True: deque(), False: deque()})
    jobs: dict[str, Arrival] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    next_wake_s: float = inf

    def run(self, arrivals: Iterable[Arrival]) -> Result:
        for number, arrival in enumerate(sorted(arrivals, key=lambda one: one.at_s)):
            job = self._waiting(str(number), arrival)
            self.jobs[job.job_id] = arrival
            self._at(arrival.at_s, partial(self._arrive, job))
        while self.events:
            self.now_s = self.events[0][0]
            while self.events and self.events[0][0] <= self.now_s:
                heapq.heappop(self.events)[2]()
            self._plan()
        return Result(outcomes=[self.outcomes[job_id] for job_id in self.jobs], batches=self.batches)

    def _waiting(self, job_id: str, arrival: Arrival) -> Waiting:
        due_s = inf if arrival.deadline_ms is None else arrival.at_s + arrival.deadline_ms / 1000
        return Waiting(
            job_id=job_id,
            length=arrival.length,
            arrived_s=arrival.at_s,
            budget_s=min(due_s, arrival.at_s + self.slo_ms / 1000),
            due_s=due_s,
            key=arrival.key,
            interactive=arrival.interactive,
        )

    def _at(self, when_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when_s, next(self.ties), what))

    def _arrive(self, job: Waiting) -> None:
        if sum(map(len, self.queues.values())) >= self.queue_limit:
            self._end(job, Status.REFUSED)
        else:
            self.queues[job.interactive].append(job)

    def _fill(self) -> None:
        """Take jobs from the queues as the brokers hand them out: see `inferq.broker.shares`."""
        prefetch = 4 * self.planner.max_batch_size
        self._take(interactive=False, bulk_most=max(1, prefetch // 8), prefetch=prefetch)
        self._take(interactive=True, bulk_most=0, prefetch=prefetch)
        self._take(interactive=False, bulk_most=prefetch - prefetch // 4, prefetch=prefetch)

    def _take(self, *, interactive: bool, bulk_most: int, prefetch: int) -> None:
        queue = self.queues[interactive]
        while queue and self.held < prefetch and (interactive or self.held_bulk < bulk_most):
            job = queue.popleft()
            if job.due_s <= self.now_s:
                self._end(job, Status.EXPIRED, at_s=job.due_s)
                continue
            self._hold(job, 1)
            self.planner.add(job, self.now_s)

    def _plan(self) -> None:
        """Do what the worker does whenever anything has changed."""
        while True:
            self._fill()
            hopeless = self.planner.hopeless(self.now_s)
            for job in hopeless:
                self.planner.window.remove(job)
                self._give_up(job)
            if hopeless:
                continue
            if self._grant():
                continue
            decision = self.planner.next(self.now_s)
            if isinstance(decision, Wait):
                break
            turn = decision.turn
            if self.start_s:
                self._at(self.now_s + self.start_s, partial(self._started, turn))
            else:
                self._started(turn)
        # A timer that is due anyhow needs no second one.
        wake_s = min(
            inf if decision.until_s is None else decision.until_s, self.planner.next_hopeless_s() + TICK_S
        )
        if self.now_s < self.next_wake_s <= wake_s or wake_s == inf:
            return
        self.next_wake_s = max(wake_s, self.now_s + TICK_S)
        self._at(self.next_wake_s, _wake)

    def _started(self, turn: Turn[Waiting]) -> None:
        self.planner.started(self.start_s)
        turn.ready = True

    def _grant(self) -> bool:
        """Run the batches whose lanes are free; say whether one turned out to have nothing left to run."""
        void = False
        for turn in self.planner.grant(self.now_s):
            self._drop_late(turn)
            if not turn.jobs:
                self.planner.off(turn)
                void = True
                continue
            for job in (*turn.jobs, *turn.twins):
                self.started[job.job_id] = self.now_s
            ms = (self.wide if turn.wide else self.lane)(turn.rows, turn.length)
            if self.noise:
                ms *= self.drawn.lognormvariate(0, self.noise)
            self._at(self.now_s + ms / 1000, partial(self._ran, turn, ms))
        return void

    def _drop_late(self, turn: Turn[Waiting]) -> None:
        for jobs in (turn.jobs, turn.twins):
            late = [job for job in jobs if self.planner.too_late(job, turn.predicted_ms, self.now_s)]
            for job in late:
                jobs.remove(job)
                self._give_up(job)
        if not turn.jobs and turn.twins:
            turn.jobs.append(turn.twins.pop())

    def _ran(self, turn: Turn[Waiting], ms: float) -> None:
        self.planner.observe(turn, ms)
        self.planner.off(turn)
        self.batches.append(
            Batch(
                started_s=self.now_s - ms / 1000,
                ended_s=self.now_s,
                rows=turn.rows,
                length=turn.length,
                useful_tokens=sum(job.length for job in turn.jobs),
                reason=turn.reason,
                wide=turn.wide,
                interactive=not turn.bulk,
            )
        )
        self._at(self.now_s + self.store_s, partial(self._stored, turn))

    def _stored(self, turn: Turn[Waiting]) -> None:
        self.planner.stored(self.store_s)
        for job in (*turn.jobs, *turn.twins):
            self._hold(job, -1)
            self._end(job, Status.DONE)

    def _give_up(self, job: Waiting) -> None:
        self._hold(job, -1)
        self._end(job, Status.EXPIRED)

    def _hold(self, job: Waiting, by: int) -> None:
        self.held += by
        self.held_bulk += 0 if job.interactive else by

    def _end(self, job: Waiting, status: Status, *, at_s: float | None = None) -> None:
        finished_s = self.now_s if at_s is None else at_s
        done = status is Status.DONE
        self.outcomes[job.job_id] = Outcome(
            number=int(job.job_id),
            arrival=self.jobs[job.job_id],
            started_s=self.started.get(job.job_id, inf),
            finished_s=finished_s,
            status=status,
            late=not done or finished_s > job.budget_s,
            in_time=done and finished_s <= job.due_s,
        )


def _wake() -> None:
    """Do nothing but have the planner asked again."""
