"""The circuit breaker before the engine: whose fault it is that runs fail, the jobs' or the engine's.

A job may take any engine down, so that runs fail says nothing yet. What tells is the canary: a run that has nothing
to do with any job, and that an engine which is well answers: a row of tokens, or of zeros.

1. Runs that fail are counted. The failure that would open the breaker is the canary's: it is opened by no number of
   poisonous jobs, be they one or all that there are.
2. Before a job is blamed because it failed alone, the canary is run. An engine that does not answer that either is the
   one to blame; it is asked again until it answers, or until the breaker opens, and the job is charged with nothing.
3. A run that was spared tells nothing, nor does one of several jobs that was too large, for the device's memory or to
   be sent: a smaller one may fit. A job without room even alone, with the engine for itself, is judged as any other:
   the canary wants hardly any. Of those that were under way together when the engine died, one counts.
4. A process that cannot be started again is a failure as well, and needs no canary.
5. While it is open nothing runs. Then the canary is run, one at a time, until it has answered often enough.

The canary has the lane of the run that failed: so the engine never has more runs than lanes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Protocol

import structlog

from batcher.engine import BatchRaised, Blame, EngineLost, OutOfMemory, TooLong
from inferq.background import end
from inferq.breaker import State
from inferq.circuit import Circuit
from inferq.heartbeats import BreakerFigures

NAME: Final = "engine"
# Of a model of texts. Like a row of a warm-up; a model that takes fewer tokens has fewer.
CANARY: Final = (4,) * 8
# How often a canary is run again because the engine died of a neighbour, before that counts against the engine.
TRIES: Final = 3

_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """Whose fault a failed run was."""

    JOBS = "jobs"
    """One of its jobs is to blame: the engine answers."""
    ENGINE = "engine"
    """The engine's, which is well again: nothing is known of the jobs."""
    RESTS = "rests"
    """The engine's, and it is not asked for a while."""


class Kept(Protocol):
    """An engine that is started again when it dies; ``restart_failed`` is what it calls when it cannot be."""

    restart_failed: Callable[[], None]


class Canary(Protocol):
    """Runs the canary in the engine."""

    async def __call__(self, *, timeout_ms: float, wide: bool) -> object:
        """Run it; raises `BatchRaised` or `EngineLost`."""


class EngineCircuit:
    """Judges runs for the runner. ``limit_ms`` is how long the ``canary`` may take, wide or not.

    ``turned`` is called when the rest begins, and when it has ended.
    """

    def __init__(
        self,
        circuit: Circuit,
        engine: Kept,
        *,
        canary: Canary,
        limit_ms: Callable[[bool], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._circuit, self._canary, self._limit_ms, self._sleep = circuit, canary, limit_ms, sleep
        self._judging = asyncio.Lock()
        self._rests = asyncio.Event()
        self._works = asyncio.Event()
        self._works.set()
        self._computing = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.turned: Callable[[], None] = lambda: None
        engine.restart_failed = self._restart_failed

    @property
    def rests(self) -> bool:
        """Whether nothing may run."""
        return self._rests.is_set()

    async def until_rest(self) -> None:
        """Wait until nothing may run."""
        await self._rests.wait()

    async def until_work(self) -> None:
        """Wait until batches may run."""
        await self._works.wait()

    def figures(self) -> BreakerFigures:
        """Bring the metrics up to date, and return what the heartbeat says."""
        self._circuit.tell()
        return self._circuit.figures()

    def enter(self) -> int | None:
        """Return the ticket of a run, to be brought back; None: nothing may run."""
        ticket = None if self.rests else self._circuit.try_enter()
        if ticket is not None:
            self._computing += 1
            self._quiet.clear()
        return ticket

    def left(self) -> None:
        """A run is not on the engine any more, however it ended."""
        self._computing -= 1
        if not self._computing:
            self._quiet.set()

    def succeeded(self, ticket: int) -> None:
        """A run was answered."""
        self._circuit.succeeded(ticket)

    async def failed(
        self, ticket: int, error: BatchRaised | EngineLost, *, alone: bool, wide: bool
    ) -> Verdict:
        """Judge a run that failed, of a single job or of several; its lane is still its own."""
        large = isinstance(error, OutOfMemory | TooLong) and not alone
        if large or (isinstance(error, EngineLost) and error.blame is Blame.SPARED):
            self._circuit.left(ticket)
            return Verdict.RESTS if self.rests else Verdict.JOBS
        if not alone and self._circuit.failures_left > 1:
            self._circuit.failed(ticket)
            return Verdict.JOBS
        async with self._judging:
            return await self._judge(wide)

    async def keep(self) -> None:
        """See the engine through its rests, for ever; cancel to end."""
        while True:
            await self._rests.wait()
            await self._quiet.wait()
            await self._sleep(self._circuit.half_open_in_s)
            ticket = self._circuit.try_enter()
            if ticket is None:
                continue
            answered = await self._answers(wide=False)
            self._bring_back(ticket, answered)
            if self._circuit.state is State.CLOSED:
                _log.info("engine.well_again")
                self._rests.clear()
                self._works.set()
                self.turned()

    async def _judge(self, wide: bool) -> Verdict:
        verdict = Verdict.JOBS
        while not self.rests:
            ticket = self._circuit.try_enter()
            assert ticket is not None, "it is closed"
            answered = await self._answers_or_rests(wide)
            self._bring_back(ticket, answered)
            if answered:
                return verdict
            verdict = Verdict.ENGINE
        return Verdict.RESTS

    def _bring_back(self, ticket: int, answered: bool) -> None:
        if answered:
            self._circuit.succeeded(ticket)
        else:
            self._circuit.failed(ticket)
            self._heed()

    def _restart_failed(self) -> None:
        self._circuit.away()
        self._heed()

    def _heed(self) -> None:
        """Begin a rest, if the breaker has opened."""
        if self._circuit.state is not State.CLOSED and not self.rests:
            _log.error("engine.rests", for_s=round(self._circuit.half_open_in_s, 1))
            self._works.clear()
            self._rests.set()
            self.turned()

    async def _answers_or_rests(self, wide: bool) -> bool:
        """Run the canary, unless a rest begins meanwhile, as it does when the engine cannot be started again."""
        canary = asyncio.create_task(self._answers(wide=wide), name="canary")
        rest = asyncio.create_task(self._rests.wait(), name="canary-rest")
        try:
            await asyncio.wait({canary, rest}, return_when=asyncio.FIRST_COMPLETED)
            return canary.done() and canary.result()
        finally:
            await end(canary, rest)

    async def _answers(self, *, wide: bool) -> bool:
        """Run the canary and say whether the engine answered."""
        for _ in range(TRIES):
            try:
                await self._canary(timeout_ms=self._limit_ms(wide), wide=wide)
            except BatchRaised:
                return False
            except EngineLost as error:
                if error.blame is Blame.SURE:
                    return False
            else:
                return True
        return False
