"""The planner through any course of events: lanes are never granted twice, and every job ends exactly once."""

from collections.abc import Iterator
from math import inf

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batcher.cost import Cost, CostModel, Sample
from batcher.lanes import Rank, Turn
from batcher.planner import MOST_AHEAD_S, Planner, Start
from batcher.policy import CloseReason, make_policy
from batcher.waiting import Waiting
from batcher.window import BULK_PATIENCE_S

LANE = Cost(tau0_ms=5, row_ms=0.5, token_ms=0.2, token_length_ms=0)
WIDE = Cost(tau0_ms=4, row_ms=0.4, token_ms=0.15, token_length_ms=0)
SIZE = 4
TOKENS = 120


def _model(cost: Cost) -> CostModel:
    return CostModel(
        [Sample(rows=r, length=n, ms=cost.batch_ms(r, n)) for r in (1, 2, 4) for n in (8, 16, 32, 64)]
    )


class AnyCourse(RuleBasedStateMachine):
    """A shell that begins, starts, runs, fails, splits and settles as it likes, and does its books by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.number = 0
        self.arrived: dict[str, Waiting] = {}
        self.ended: dict[str, str] = {}
        self.starting: list[Turn[Waiting]] = []
        self.ready: list[Turn[Waiting]] = []
        self.running: list[Turn[Waiting]] = []
        # When the planner wants to be asked again.
        self.until_s: float | None = None

    @initialize(
        lanes=st.integers(1, 3), has_wide=st.booleans(), policy=st.sampled_from(["slo", "greedy", "fixed"])
    )
    def build(self, lanes: int, has_wide: bool, policy: str) -> None:
        """An engine of any layout, and any policy."""
        self.lanes = lanes
        self.planner: Planner[Waiting] = Planner(
            policy=make_policy(policy, max_batch_size=SIZE, max_wait_ms=20),
            lane=_model(LANE),
            wide=_model(WIDE) if has_wide else None,
            lanes=lanes,
            max_batch_size=SIZE,
            max_batch_tokens=TOKENS,
        )

    @rule(
        length=st.integers(1, 150),
        bulk=st.booleans(),
        suspect=st.sampled_from([False, False, False, True]),
        key=st.sampled_from([None, None, "k", "l"]),
        deadline_s=st.sampled_from([inf, inf, 0.01, 0.05, 0.3]),
        many=st.integers(1, 5),
    )
    def arrive(
        self, length: int, bulk: bool, suspect: bool, key: str | None, deadline_s: float, many: int
    ) -> None:
        """Some jobs of one kind arrive at once."""
        for _ in range(1 if suspect else many):
            due_s = self.now_s + deadline_s
            job = Waiting(
                job_id=str(self.number),
                length=length,
                arrived_s=self.now_s,
                budget_s=min(due_s, self.now_s + 0.2),
                due_s=due_s,
                key=None if suspect else key,
                interactive=not bulk,
                suspect=suspect,
            )
            self.number += 1
            self.arrived[job.job_id] = job
            self.planner.add(job, self.now_s)

    @rule(ms=st.one_of(st.integers(0, 40), st.just(1000 * BULK_PATIENCE_S)))
    def wait(self, ms: float) -> None:
        """Time goes by."""
        self.now_s += ms / 1000

    @rule()
    def plan(self) -> None:
        """The shell's loop: expire, begin and grant as long as there is anything to do."""
        for job in self.planner.hopeless(self.now_s):
            assert job.due_s < inf
            self.planner.window.remove(job)
            self._end(job, "expired")
        decision = self.planner.next(self.now_s)
        while isinstance(decision, Start):
            self._begun(decision.turn)
            decision = self.planner.next(self.now_s)
        assert decision.until_s is None or decision.until_s > self.now_s
        self.until_s = decision.until_s
        self._grant()

    @precondition(lambda self: self.starting)
    @rule(data=st.data(), void=st.sampled_from([False, False, False, True]))
    def started(self, data: st.DataObject, void: bool) -> None:
        """The store has started a batch; or all its jobs turned out to be cancelled."""
        turn = data.draw(st.sampled_from(self.starting))
        self.starting.remove(turn)
        self.planner.started(0.001)
        if void:
            self._settle(turn, "cancelled")
            self.planner.off(turn)
        else:
            turn.ready = True
            self.ready.append(turn)
        self._grant()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), factor=st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    def ran(self, data: st.DataObject, factor: float) -> None:
        """A batch has its answer, sooner or later than predicted."""
        turn = data.draw(st.sampled_from(self.running))
        self.running.remove(turn)
        self.planner.observe(turn, factor * turn.predicted_ms)
        self.planner.off(turn)
        self._settle(turn, "done")
        self.planner.stored(0.001)
        self._grant()

    @precondition(lambda self: any(turn.rows > 1 for turn in self.running))
    @rule(data=st.data(), every_lane=st.booleans())
    def failed(self, data: st.DataObject, every_lane: bool) -> None:
        """A batch failed and is run again by halves, with their twins."""
        turn = data.draw(st.sampled_from([turn for turn in self.running if turn.rows > 1]))
        self.running.remove(turn)
        self.planner.off(turn)
        half = turn.rows // 2
        for jobs in (turn.jobs[:half], turn.jobs[half:]):
            twins = [twin for twin in turn.twins if twin.key in {job.key for job in jobs}]
            part = self.planner.part(jobs, twins, CloseReason.SPLIT, self.now_s, every_lane=every_lane)
            assert part.ready
            self.ready.append(part)
        self._grant()

    @precondition(lambda self: self.planner.window.jobs)
    @rule(data=st.data())
    def cancelled(self, data: st.DataObject) -> None:
        """A client no longer wants its job."""
        job = data.draw(st.sampled_from(self.planner.window.jobs))
        self.planner.window.remove(job)
        self._end(job, "cancelled")

    @invariant()
    def each_job_is_in_one_place(self) -> None:
        """Ended, in the window, or in one turn; nobody is lost, nobody runs twice."""
        if not hasattr(self, "planner"):
            return
        out = [job for turn in self._turns() for job in (*turn.jobs, *turn.twins)]
        held = [*(job.job_id for job in (*self.planner.window.jobs, *out)), *self.ended]
        assert sorted(held, key=int) == list(self.arrived)

    @invariant()
    def no_lane_is_granted_twice(self) -> None:
        """As many batches as lanes; one that needs them all has them all."""
        if self.running:
            assert len(self.running) <= self.lanes
            assert len(self.running) == 1 or not any(turn.every_lane for turn in self.running)
            assert all(turn.running for turn in self.running)

    @invariant()
    def little_is_begun_ahead(self) -> None:
        """At most one a lane, parts of failed batches aside; and as much bulk, which may have been overtaken."""
        begun = [turn for turn in (*self.starting, *self.ready) if turn.rank is not Rank.PART]
        for bulk in (False, True):
            assert sum(turn.bulk is bulk for turn in begun) <= getattr(self, "lanes", 0)

    def teardown(self) -> None:
        """When arrivals stop, everything ends, in a bounded number of steps, and the planner wakes us when it must."""
        if not hasattr(self, "planner"):
            return
        for _ in range(10 * self.number + 10):
            self.plan()
            if len(self.ended) == self.number:
                break
            self._go_on()
        assert len(self.ended) == self.number
        assert self.planner.next(self.now_s + 1e6) is not None
        assert not self.planner.window.jobs
        assert not list(self._turns())

    def _go_on(self) -> None:
        """Let the next thing happen that is bound to."""
        if self.starting:
            turn = self.starting.pop()
            turn.ready = True
            self.ready.append(turn)
        elif self.running:
            turn = min(self.running, key=lambda one: one.ends_s)
            self.now_s = max(self.now_s, turn.ends_s)
            self.running.remove(turn)
            self.planner.off(turn)
            self._settle(turn, "done")
        else:
            assert self.until_s is not None, "nothing runs, and nothing would ever wake us"
            self.now_s = self.until_s
        self._grant()

    def _turns(self) -> Iterator[Turn[Waiting]]:
        yield from (*self.starting, *self.ready, *self.running)

    def _begun(self, turn: Turn[Waiting]) -> None:
        """A batch was begun: check that it could be."""
        assert turn.jobs
        assert not turn.running
        assert turn.length == max(job.length for job in turn.jobs)
        assert turn.rows == 1 or (turn.rows <= SIZE and turn.rows * turn.length <= TOKENS)
        if any(job.suspect for job in turn.jobs):
            assert turn.rows == 1
            assert turn.every_lane
            assert not self.running
        elif len(self.running) == self.lanes or any(one.every_lane for one in self.running):
            assert min(one.ends_s for one in self.running) - self.now_s <= MOST_AHEAD_S + 1e-9
        if turn.wide:
            assert turn.every_lane
            assert len(self.running) <= (
                1 if self.lanes == 1 else any(one.every_lane for one in self.running)
            )
        assert not turn.ready
        self.starting.append(turn)

    def _grant(self) -> None:
        for turn in self.planner.grant(self.now_s):
            self.ready.remove(turn)
            assert turn.running
            assert turn.ends_s >= self.now_s
            if turn.rank is Rank.BULK:
                assert not self.planner.window.interactive
            self.running.append(turn)

    def _settle(self, turn: Turn[Waiting], how: str) -> None:
        for job in (*turn.jobs, *turn.twins):
            self._end(job, how)

    def _end(self, job: Waiting, how: str) -> None:
        assert job.job_id not in self.ended
        self.ended[job.job_id] = how


TestAnyCourse = AnyCourse.TestCase
TestAnyCourse.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
