"""The breaker before the engine, with an engine and a clock of the test's own: who is blamed, and how it comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from batcher.engine import BatchRaised, Blame, EngineLost, OutOfMemory, TooLong
from batcher.enginecircuit import TRIES, EngineCircuit, Verdict
from inferq.breaker import Limits
from inferq.circuit import Circuit
from inferq.telemetry import Metrics

RAISED = BatchRaised("it raised")
SHORT = OutOfMemory("no memory")
DIED = EngineLost("it died", hung=False, blame=Blame.SURE)
HUNG = EngineLost("it hung", hung=True, blame=Blame.SURE)
BESIDE = EngineLost("it died under several", hung=False, blame=Blame.UNSURE)
SPARED = EngineLost("another one hung", hung=True, blame=Blame.SPARED)


class Engine:
    """Answers as ordered: with the next of ``answers``, and then with ``always``; None is well."""

    def __init__(self) -> None:
        self.answers: list[Exception | None] = []
        self.always: Exception | None = None
        self.up = asyncio.Event()
        self.up.set()
        self.ran = 0
        self.restart_failed: Callable[[], None] = lambda: None

    async def canary(self, *, timeout_ms: float, wide: bool) -> object:
        """Run a canary."""
        await self.up.wait()
        assert timeout_ms == (2.0 if wide else 1.0)
        self.ran += 1
        error = self.answers.pop(0) if self.answers else self.always
        if error is not None:
            raise error
        return None


class Rig:
    """A breaker that opens after five failures for 30 s, on a clock that its own sleep moves."""

    def __init__(self) -> None:
        self.now_s, self.slept_s = 0.0, list[float]()
        self.engine, self.turns = Engine(), list[bool]()
        self.gate = EngineCircuit(
            Circuit("engine", Limits(), Metrics(), clock=lambda: self.now_s),
            self.engine,
            canary=self.engine.canary,
            limit_ms=lambda wide: 2.0 if wide else 1.0,
            sleep=self.sleep,
        )
        self.gate.turned = lambda: self.turns.append(self.gate.rests)

    async def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.slept_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)

    async def fail(self, error: BatchRaised | EngineLost = DIED, *, alone: bool = False) -> Verdict:
        """Run a batch that fails."""
        ticket = self.gate.enter()
        assert ticket is not None
        self.gate.left()
        return await self.gate.failed(ticket, error, alone=alone, wide=False)

    def succeed(self) -> None:
        """Run a batch that is answered."""
        ticket = self.gate.enter()
        assert ticket is not None
        self.gate.left()
        self.gate.succeeded(ticket)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """See it through its rests."""
        keeping = asyncio.create_task(self.gate.keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize("error", [RAISED, DIED, HUNG])
async def test_five_failures_open_it_of_which_the_last_is_the_canarys(
    error: BatchRaised | EngineLost,
) -> None:
    """Four batches of jobs and the canary: the fifth batch is not to blame, and nothing may run any more."""
    rig = Rig()
    rig.engine.always = DIED
    assert [await rig.fail(error) for _ in range(5)] == [*[Verdict.JOBS] * 4, Verdict.RESTS]
    assert rig.engine.ran == 1
    figures = rig.gate.figures()
    assert (figures.state, figures.failures, figures.opened, figures.half_open_in_s) == ("open", 5, 1, 30.0)
    assert rig.gate.rests
    assert rig.gate.enter() is None
    assert rig.turns == [True]


async def test_an_engine_that_answers_the_canary_is_not_to_blame() -> None:
    """However many batches fail in a row: the count begins anew with each canary that is answered."""
    rig = Rig()
    assert {await rig.fail() for _ in range(50)} == {Verdict.JOBS}
    assert rig.engine.ran == 10
    assert rig.gate.figures().opened == 0


async def test_a_batch_that_is_answered_begins_the_count_anew() -> None:
    """Failures with successes between them never come to a canary."""
    rig = Rig()
    for _ in range(5):
        for _ in range(4):
            await rig.fail()
        rig.succeed()
    assert rig.engine.ran == 0
    assert rig.gate.figures().failures == 20


async def test_before_a_job_alone_is_blamed_the_engine_is_asked() -> None:
    """One that answers says that it is the job; one that does not is asked until it does, and the job is not known."""
    rig = Rig()
    assert await rig.fail(alone=True) is Verdict.JOBS
    assert rig.engine.ran == 1
    rig.engine.answers = [RAISED, DIED]
    assert await rig.fail(alone=True) is Verdict.ENGINE
    assert rig.engine.ran == 4
    rig.engine.always = DIED
    assert await rig.fail(alone=True) is Verdict.RESTS
    assert rig.engine.ran == 9


async def test_what_a_neighbour_did_tells_nothing() -> None:
    """A run that was spared is not counted; a canary that a neighbour took along is run again, so many times."""
    rig = Rig()
    assert {await rig.fail(SPARED) for _ in range(20)} == {Verdict.JOBS}
    assert rig.gate.figures().failures == 0
    rig.engine.answers = [BESIDE, SPARED]
    assert await rig.fail(alone=True) is Verdict.JOBS
    assert rig.engine.ran == 3
    rig.engine.answers = [BESIDE] * TRIES
    assert await rig.fail(alone=True) is Verdict.ENGINE
    assert rig.gate.figures().failures == 1


async def test_runs_that_one_death_takes_along_are_one_failure() -> None:
    """Of all that were under way together the first counts."""
    rig = Rig()
    tickets = [rig.gate.enter() for _ in range(20)]
    for ticket in tickets:
        assert ticket is not None
        rig.gate.left()
        assert await rig.gate.failed(ticket, BESIDE, alone=False, wide=False) is Verdict.JOBS
    assert rig.gate.figures().failures == 1


async def test_after_each_rest_it_is_tried_and_two_answers_close_it() -> None:
    """A try that fails is followed by a whole rest; batches run again only after the second good one."""
    rig = Rig()
    rig.engine.always = DIED
    for _ in range(5):
        await rig.fail()
    rig.engine.answers = [DIED, None, RAISED, None, None]
    rig.engine.ran = 0
    async with rig.kept():
        await asyncio.wait_for(rig.gate.until_work(), 5)
    assert rig.engine.ran == 5
    assert [seconds for seconds in rig.slept_s if seconds] == [30.0, 30.0, 30.0]
    assert rig.turns == [True, False]
    figures = rig.gate.figures()
    assert (figures.state, figures.failures, figures.successes, figures.opened) == ("closed", 7, 3, 3)
    rig.succeed()


async def test_restarts_that_fail_open_it_and_let_go_who_waits() -> None:
    """No canary can be run then: whoever waits for one is told that the engine has its rest."""
    rig = Rig()
    rig.engine.up.clear()
    judged = asyncio.create_task(rig.fail(alone=True))
    for _ in range(5):
        await asyncio.sleep(0)
        rig.engine.restart_failed()
    assert await asyncio.wait_for(judged, 5) is Verdict.RESTS
    assert (rig.engine.ran, rig.gate.figures().failures) == (0, 5)


async def test_nothing_is_tried_while_a_run_is_on_the_engine() -> None:
    """What was under way when the rest began ends first, and what it brings is late."""
    rig = Rig()
    late = rig.gate.enter()
    assert late is not None
    for _ in range(5):
        rig.engine.restart_failed()
    async with rig.kept():
        await asyncio.sleep(0)
        assert rig.slept_s == []
        rig.gate.left()
        rig.gate.succeeded(late)
        assert rig.gate.figures().successes == 0
        await asyncio.wait_for(rig.gate.until_work(), 5)
    assert rig.engine.ran == 2


async def test_a_run_that_fails_during_the_rest_is_not_judged() -> None:
    """Its jobs go back like the others, whether it was spared or alone."""
    rig = Rig()
    tickets = [rig.gate.enter() for _ in range(2)]
    for _ in range(5):
        rig.engine.restart_failed()
    for ticket, error in zip(tickets, (SPARED, DIED), strict=True):
        assert ticket is not None
        rig.gate.left()
        assert await rig.gate.failed(ticket, error, alone=True, wide=False) is Verdict.RESTS
    assert rig.engine.ran == 0


async def test_the_canary_goes_where_the_failed_run_was() -> None:
    """In the wide session, if that is where it failed, with the time that a run has there."""
    rig = Rig()
    ticket = rig.gate.enter()
    assert ticket is not None
    rig.gate.left()
    assert await rig.gate.failed(ticket, DIED, alone=True, wide=True) is Verdict.JOBS
    assert rig.engine.ran == 1


async def test_a_batch_that_is_too_long_to_be_sent_tells_nothing_of_the_engine() -> None:
    """It was not asked."""
    rig = Rig()
    assert {await rig.fail(TooLong("no frame holds it")) for _ in range(50)} == {Verdict.JOBS}
    assert (rig.engine.ran, rig.gate.figures().failures) == (0, 0)


async def test_want_of_memory_beside_others_tells_nothing_of_the_engine() -> None:
    """However often: a smaller batch may fit. A job that has no room even alone is judged as any other."""
    rig = Rig()
    assert {await rig.fail(SHORT) for _ in range(50)} == {Verdict.JOBS}
    assert (rig.engine.ran, rig.gate.figures().failures) == (0, 0)
    assert await rig.fail(SHORT, alone=True) is Verdict.JOBS
    assert rig.engine.ran == 1
    rig.engine.always = SHORT
    assert await rig.fail(SHORT, alone=True) is Verdict.RESTS
