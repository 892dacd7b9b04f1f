"""What the engine runs next: the batcher's brain. Pure, on the caller's clock.

The shell tells it what arrives, what is started and what ends, and asks `next` and `grant`. The same planner is driven
by the simulator on a virtual clock.

1. Interactive jobs come before bulk ones (window.py), and so do their batches (lanes.py). A suspect runs alone, on an
   engine that has nothing else to do.
2. The most urgent job (the earliest budget) is in the next batch, with those mates of its group and of like length that
   make the work in the window cheapest; so none is passed over, and the cheapest composition is not paid for with
   anybody's wait. Where a deadline or its budget is at stake, mates are dropped, or it gives way (mates.py).
3. While lanes are free, a batch takes only its share of what waits. With all of them free, the wide session runs the
   batch where it predicts to be done with everything sooner: one job alone is fastest on all threads. To hold a free
   lane back until the wide session would be free was tried in the simulator and lost from half load on.
4. To start a batch in the store takes a while, in which its lane would idle. So it is begun as much before a lane is
   predicted to be free as that has lately taken, at most `MOST_AHEAD_S`.
5. A job with a deadline of its own is hopeless once even a run alone on the lane that is free first would, with the
   margin of the cost model, end too late; it is then expired instead of run, so that those that are run end in time.
6. Where batches have few shapes (shapes.py) all of this counts in padded shapes, and where memory was short
   (fitting.py) batches are smaller than the settings allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf, prod
from operator import attrgetter
from typing import Final, Generic, TypeVar

from batcher.composition import Compose, by_cost, by_group
from batcher.cost import Cost, CostModel, Sample, capacity
from batcher.filling import to_shape
from batcher.fitting import Fitting
from batcher.lanes import Lanes, Rank, Turn
from batcher.mates import keep
from batcher.policy import CloseReason, Policy, View, Wait
from batcher.shapes import EXACT, Shapes
from batcher.waiting import Waiting
from batcher.window import Window

MOST_AHEAD_S: Final = 0.02
# More jobs are not composed at a time unless a batch may hold more: the loop waits for the search.
MOST_COMPOSED: Final = 256
# How much of the newest value goes into a running mean.
NEWEST: Final = 0.1

Job = TypeVar("Job", bound=Waiting)


@dataclass(frozen=True, kw_only=True)
class Start(Generic[Job]):
    """Begin this batch now."""

    turn: Turn[Job]


@dataclass(kw_only=True)
class Planner(Generic[Job]):
    """Decides for one engine of ``lanes`` lanes; ``lane`` and ``wide`` predict a batch's time there."""

    policy: Policy
    lane: CostModel
    wide: CostModel | None = None
    lanes: int = 1
    max_batch_size: int
    max_batch_tokens: int
    compose: Compose[Job] = by_cost
    shapes: Shapes = EXACT
    window: Window[Job] = field(default_factory=Window)
    fitting: Fitting = field(default_factory=lambda: Fitting(most_tokens=0))
    _on: Lanes[Job] = field(init=False)
    _gap_s: float = inf
    _last_at_s: float = -inf
    _start_s: float = 0.002
    _store_s: float = 0.002
    # What a job of a length takes alone, with margin, for as long as the cost models stay as they are.
    _alone_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._on = Lanes(count=self.lanes)
        if not self.fitting.most_tokens:
            self.fitting = Fitting(most_tokens=self.max_batch_tokens)

    def capacity_rate(self, length: int) -> float:
        """Predict the jobs a second when there is always work, all of them ``length`` tokens long."""
        length = self.shapes.length(length)
        most = {"most_rows": self.max_batch_size, "most_tokens": self.fitting.limit, "length": length}
        narrow = capacity(self.lane.cost, lanes=self.lanes, **most)
        return narrow if self.wide is None else max(narrow, capacity(self.wide.cost, lanes=1, **most))

    def add(self, job: Job, now_s: float) -> None:
        """Take a job in that has arrived."""
        if self._last_at_s > -inf:
            gap_s = max(0.0, now_s - self._last_at_s)
            self._gap_s = gap_s if self._gap_s == inf else self._gap_s + NEWEST * (gap_s - self._gap_s)
        self._last_at_s = now_s
        self.window.add(job)

    def next(self, now_s: float) -> Start[Job] | Wait:
        """Return the batch to begin now, which is then out of the window, or until when there is nothing to do."""
        suspect = self.window.next_suspect()
        if suspect is not None:
            return self._next_suspect(suspect, now_s)
        if not len(self.window):
            return Wait(until_s=None)
        rank = Rank.INTERACTIVE if self.window.interactive else Rank.BULK
        free_s, free = self._on.free(now_s, rank)
        begin_s = free_s - self._ahead_s
        if now_s < begin_s:
            return Wait(until_s=None if begin_s == inf else begin_s)
        bulk = rank is Rank.BULK or (self.window.bulk_turn(now_s) and not self._on.bulk_begun)
        rows = self.window.rows(bulk=bulk)
        if len(rows) > (most := max(MOST_COMPOSED, self.max_batch_size)):
            rows = sorted(rows, key=attrgetter("budget_s"))[:most]
        jobs, wide = self._compose(rows, now_s, free)
        oldest_at_s = min(map(attrgetter("arrived_s"), self.window.waiting(bulk=bulk)))
        view = self._view(rows, oldest_at_s, jobs, wide, spare_lanes=0 if wide else free - 1)
        decision = self.policy.decide(view, now_s)
        if isinstance(decision, Wait):
            return decision
        twins = [twin for job in jobs for twin in self.window.alike(job)]
        self.window.take(jobs, twins)
        turn = Turn(
            jobs=jobs,
            twins=twins,
            reason=decision.reason,
            rank=rank,
            begun_s=now_s,
            bulk=bulk,
            wide=wide,
            every_lane=wide,
        )
        return Start(turn=self._begin(turn))

    def part(
        self,
        jobs: list[Job],
        twins: list[Job],
        reason: CloseReason,
        now_s: float,
        *,
        every_lane: bool = False,
        ready: bool = True,
    ) -> Turn[Job]:
        """Return a further turn for jobs of a batch that failed, started before; it comes before all others."""
        return self._begin(
            Turn(
                jobs=jobs,
                twins=twins,
                reason=reason,
                rank=Rank.PART,
                begun_s=now_s,
                every_lane=every_lane,
                ready=ready,
            )
        )

    def grant(self, now_s: float) -> list[Turn[Job]]:
        """Return the turns that get their lanes now."""
        granted = self._on.grant(now_s, interactive_waits=self.window.interactive > 0)
        if any(turn.bulk for turn in granted):
            self.window.bulk_went()
        return granted

    def hopeless(self, now_s: float) -> list[Job]:
        """Return the waiting jobs whose own deadline can no longer be met."""
        if not self.window.timed:
            return []
        begin_s = max(now_s, self._on.first_free_s(now_s) - self._ahead_s)
        return [job for job in self.window.timed if self._latest_begin_s(job) < begin_s]

    def next_hopeless_s(self) -> float:
        """Return when the first waiting job will be hopeless even with a free lane; infinity without deadlines."""
        return min(map(self._latest_begin_s, self.window.timed), default=inf)

    def too_late(self, job: Job, predicted_ms: float, now_s: float) -> bool:
        """Return whether a job that runs from now on, in a batch of that time, would end after its own deadline."""
        return now_s + predicted_ms / 1000 + self._store_s > job.due_s

    def off(self, turn: Turn[Job]) -> None:
        """Note that a batch is done with the engine, or will not need it."""
        self._on.off(turn)

    def observe(self, turn: Turn[Job], ms: float) -> None:
        """Take in how long a batch took in the engine."""
        self.fitting.fitted(self.tokens(turn))
        model = self._model(turn.wide)
        known = model.cost
        model.observe(Sample(rows=turn.rows, length=turn.length, ms=ms))
        if model.cost is not known:
            self._alone_s.clear()

    def tokens(self, turn: Turn[Job]) -> int:
        """Return how many tokens a batch makes the engine compute."""
        return prod(self.shapes.padded(turn.rows, turn.length))

    def started(self, took_s: float) -> None:
        """Take in how long a batch's start in the store took."""
        self._start_s += NEWEST * (took_s - self._start_s)

    def stored(self, took_s: float) -> None:
        """Take in how long it took from a batch's answer to its results in the store."""
        self._store_s += NEWEST * (took_s - self._store_s)

    def predicted_ms(self, rows: int, length: int, *, wide: bool = False) -> float:
        """Predict how long a batch takes in the engine."""
        return self._model(wide).batch_ms(rows, length)

    @property
    def _ahead_s(self) -> float:
        return min(self._start_s, MOST_AHEAD_S)

    def _next_suspect(self, suspect: Job, now_s: float) -> Start[Job] | Wait:
        """Begin a suspect, or let the engine come to rest for it; what else waits comes after it."""
        if self._on.before(Rank.INTERACTIVE):
            return Wait(until_s=None)
        self.window.take_suspect(suspect)
        return Start(turn=self.part([suspect], [], CloseReason.SPLIT, now_s, every_lane=True, ready=False))

    def _begin(self, turn: Turn[Job]) -> Turn[Job]:
        turn.predicted_ms = self.predicted_ms(turn.rows, turn.length, wide=turn.wide)
        self._on.begin(turn)
        return turn

    def _compose(self, rows: list[Job], now_s: float, free: int) -> tuple[list[Job], bool]:
        """Return the next batch, and whether it runs wide."""
        urgent = min(rows, key=attrgetter("budget_s"))
        most = min(self.max_batch_size, ceil(len(rows) / free))
        groups = self._groups(rows, self.lane.cost, most)
        wide = False
        if self.wide is not None and free == self.lanes and len(rows) <= 2 * self.lanes:
            together = self._groups(rows, self.wide.cost, self.max_batch_size)
            wide = _total_ms(together, self.wide) <= self._spread_ms(groups)
            groups = together if wide else groups
        jobs = next(group for group in groups if urgent in group)
        model = self._model(wide)
        kept = keep(
            jobs,
            groups,
            urgent,
            batch_ms=model.batch_ms,
            ends_s=lambda some: self._ends_s(some, model, now_s),
            crowded=lambda: self._overloaded(groups, model, now_s),
        )
        bounds = {"max_rows": self.max_batch_size, "max_tokens": self.fitting.limit}
        return to_shape(kept, rows, urgent, self.shapes, **bounds), wide

    def _groups(self, rows: list[Job], cost: Cost, most: int) -> list[list[Job]]:
        return [rows] if len(rows) == 1 else by_group(self.compose, rows, cost, most, self.fitting.limit)

    def _spread_ms(self, groups: Sequence[Sequence[Job]]) -> float:
        """Return how long groups take on all lanes side by side, at least."""
        longest = max(_total_ms([group], self.lane) for group in groups)
        return max(longest, _total_ms(groups, self.lane) / self.lanes)

    def _overloaded(self, groups: list[list[Job]], model: CostModel, now_s: float) -> bool:
        """Return whether a whole batch waits, or half of what waits would be done too late if all of it ran."""
        if len(self.window) >= self.max_batch_size:
            return True
        due_s = sorted(job.due_s for group in groups for job in group)
        return now_s + _total_ms(groups, model) / 1000 / self.lanes > due_s[len(due_s) // 2]

    def _view(
        self, rows: Sequence[Job], oldest_at_s: float, jobs: Sequence[Job], wide: bool, *, spare_lanes: int
    ) -> View:
        model, length = self._model(wide), jobs[-1].length
        next_safe_s = model.safe_ms(len(jobs) + 1, length) / 1000 + self._start_s + self._store_s
        return View(
            jobs=len(rows),
            oldest_at_s=oldest_at_s,
            tokens_full=sum(map(attrgetter("length"), rows)) >= self.fitting.limit,
            rows=len(jobs),
            batch_ms=model.batch_ms(len(jobs), length),
            next_ms=model.batch_ms(len(jobs) + 1, length),
            alone_ms=model.batch_ms(1, length),
            latest_s=min(map(attrgetter("budget_s"), jobs)) - next_safe_s,
            gap_s=self._gap_s,
            last_at_s=self._last_at_s,
            spare_lanes=spare_lanes,
        )

    def _ends_s(self, jobs: Sequence[Job], model: CostModel, now_s: float) -> float:
        """Return when a batch that is begun now will be stored, with margin."""
        return now_s + self._start_s + model.safe_ms(len(jobs), jobs[-1].length) / 1000 + self._store_s

    def _latest_begin_s(self, job: Job) -> float:
        """Return when a job has to be begun at the latest to be stored, alone, when it is due."""
        alone_s = self._alone_s.get(job.length)
        if alone_s is None:
            models = [self.lane] if self.wide is None else [self.lane, self.wide]
            alone_s = min(model.safe_ms(1, job.length) for model in models) / 1000
            self._alone_s[job.length] = alone_s
        return job.due_s - alone_s - self._start_s - self._store_s

    def _model(self, wide: bool) -> CostModel:
        return self.wide if wide and self.wide is not None else self.lane


def _total_ms(groups: Sequence[Sequence[Waiting]], model: CostModel) -> float:
    return sum(model.batch_ms(len(group), group[-1].length) for group in groups)
