"""Runs a cache test: repeating inputs against pipelines with the cache off, local and shared, in turn."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from inferq.errors import OperatorError
from loadgen.figures import Figure
from loadgen.generator.plan import Inputs, Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.ideal import throughput
from loadgen.inputs import MOST_DISTINCT, MOST_EXPONENT, ideal_hit_rate
from loadgen.parts import Say
from loadgen.schedules import MOST_REQUESTS
from loadgen.sweeping import cached, levels
from loadgen.sweeping.cached import CacheTest, Run
from loadgen.sweeping.guess import guessed
from loadgen.sweeping.paper import about
from loadgen.sweeping.search import TRIES, Search
from loadgen.sweeping.swept import STAMP
from loadgen.sweeping.target import Own, Target, own
from loadgen.texts import dealt

CACHES: Final = (cached.OFF, "local", "shared")
# Of what can be done without a cache: a load that all arms can do.
EQUAL_SHARE: Final = 0.6
PATIENCE_S: Final = 60.0
# Servers tell of their caches in heartbeats, a second apart.
TOLD_WITHIN_S: Final = 5.0
POLL_S: Final = 0.1
# A hit is not for nothing, so no cache lets a pipeline do more than so many times as much as a first try.
MOST_LIGHTENED: Final = 6.0
APPROACHES: Final = 8


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often, and how long (s) each arm is loaded: at the equal load, and in each try at saturation.

    After ``tries`` the most that was done stands for saturation, found or not.
    """

    rounds: int
    equal_s: float
    try_s: float
    tries: int = TRIES


FULL: Final = Effort(rounds=3, equal_s=20.0, try_s=8.0)
QUICK: Final = Effort(rounds=1, equal_s=1.5, try_s=1.0, tries=1)
# Slow, so that what a cache lets it do is still within what a small machine can pass on.
QUICK_MODEL: Final = "simulated:30,10"
QUICK_CONFIG: Final = "16:0"


@dataclass(frozen=True, kw_only=True)
class Repeating:
    """The inputs: so many distinct texts, by Zipf's law."""

    distinct: int = 1_000
    exponent: float = 1.0

    def check(self) -> None:
        """Raise `OperatorError` for what is out of bounds."""
        if not 1 <= self.distinct <= MOST_DISTINCT or not 0 <= self.exponent <= MOST_EXPONENT:
            raise OperatorError(
                f"--distinct goes from 1 to {MOST_DISTINCT:,}, --exponent from 0 to {MOST_EXPONENT:g}"
            )


async def figures(*, quick: bool, rounds: int = FULL.rounds, say: Say) -> list[Figure]:
    """Run the test with the built-in model, in its short form with a simulated one, and return its figures."""
    effort = QUICK if quick else replace(FULL, rounds=rounds)
    wanted = Own(model=QUICK_MODEL, config=QUICK_CONFIG) if quick else Own()
    return cached.figures(await compared(wanted, Repeating(), effort, seed=0, say=say), goals=not quick)


async def compared(
    wanted: Own, inputs: Repeating, effort: Effort, *, rate: float | None = None, seed: int, say: Say
) -> CacheTest:
    """Run all rounds, the arms' order turned each time.

    ``rate`` is the equal load in jobs/s, without one a share of what the first pipeline's cost says can be done.

    Raises:
        OperatorError: a pipeline does not start or tells nothing of its cost, or an arm's saturation is not found.
        ConnectionError: a pipeline went away.
    """
    inputs.check()
    began_at = datetime.now(UTC).strftime(STAMP)
    runs: list[Run] = []
    what = ""
    for number in range(effort.rounds):
        turn = number % len(CACHES)
        for cache in (*CACHES[turn:], *CACHES[:turn]):
            async with own(replace(wanted, cache=cache)) as target:
                what = about(target.server)
                guess = guessed(target)
                if guess is None:
                    raise OperatorError("the batcher did not say at its warm-up what a batch costs")
                # The same for all, although each pipeline fits its cost anew.
                rate = rate or EQUAL_SHARE * guess
                arm = _Arm(target, inputs, cache, effort, seed=seed + 1000 * number)
                runs.append(await arm.run(number, rate, guess))
            say(f"round {number + 1} of {effort.rounds}, {cached.line(runs[-1])}")
    return CacheTest(
        about=what,
        began_at=began_at,
        distinct=inputs.distinct,
        exponent=inputs.exponent,
        rounds=effort.rounds,
        seed=seed,
        runs=tuple(runs),
    )


class _Arm:
    """One cache in one round, on a pipeline of its own."""

    def __init__(self, target: Target, inputs: Repeating, cache: str, effort: Effort, *, seed: int) -> None:
        self._target, self._inputs, self._cache = target, inputs, cache
        self._effort, self._seed = effort, seed
        self._texts = dealt(MOST_REQUESTS, seed=seed)

    async def run(self, number: int, rate: float, guess: float) -> Run:
        """Load the arm at ``rate``, and then beyond what it can do, of which ``guess`` is without a cache."""
        even = await generated(self._plan(rate, self._effort.equal_s, warm_s=0.0))
        hits = await self._counted_hits(even)
        ideal = 0.0 if self._cache == cached.OFF else self._ideal(even.accepted)
        saturated, last = await self._saturated(guess)
        return Run(
            cache=self._cache,
            round=number,
            rate=rate,
            jobs=even.accepted,
            hits=_share(even.cached, even.done),
            counted_hits=_share(hits, even.done),
            ideal=ideal,
            p50_ms=even.pushed.p50_ms,
            p99_ms=even.pushed.p99_ms,
            saturated=saturated,
            saturated_hits=_share(last.cached, last.done),
            mean_batch=last.batches.mean,
            invalid=tuple(even.invalid),
        )

    async def _saturated(self, guess: float) -> tuple[float, Report]:
        warm_s = levels.warm_s(self._effort.try_s)
        search = Search(self._lightened(guess, warm_s + self._effort.try_s))
        best: Report | None = None
        tried = 0
        while True:
            plan = self._plan(search.rate, self._effort.try_s, warm_s=warm_s)
            report = await generated(plan)
            search.tried(report.offered / report.seconds, throughput(report))
            if best is None or throughput(report) > throughput(best):
                best = report
            tried += 1
            if search.capacity is not None or tried >= self._effort.tries:
                return throughput(best), best
            await self._target.drained(within_s=PATIENCE_S)

    def _lightened(self, guess: float, seconds: float) -> float:
        """Return what can be done a second where hits cost nothing: the longer a run, the more are hits."""
        rate = guess
        for _ in range(APPROACHES if self._cache != cached.OFF else 0):
            rate = min(MOST_LIGHTENED * guess, guess / (1 - self._ideal(round(rate * seconds))))
        return rate

    def _plan(self, rate: float, seconds: float, *, warm_s: float) -> Plan:
        """Return a plan with texts that the arm has not seen, drawn alike in all arms of a round."""
        self._seed += 1
        return Plan(
            url=self._target.url,
            schedule=Schedule(kind="poisson", rate=rate, seconds=warm_s + seconds),
            inputs=Inputs(
                texts=tuple(_next(self._texts, self._inputs.distinct)),
                distinct=self._inputs.distinct,
                exponent=self._inputs.exponent,
            ),
            seed=self._seed,
            warm_s=warm_s,
            follow="push",
            patience_s=PATIENCE_S,
        )

    def _ideal(self, jobs: int) -> float:
        return ideal_hit_rate(jobs, distinct=self._inputs.distinct, exponent=self._inputs.exponent)

    async def _counted_hits(self, report: Report) -> int:
        """Return the hits that the servers have counted, once they have told of as many as the records or in time."""
        over_s = time.monotonic() + TOLD_WITHIN_S
        while True:
            hits = int((await self._target.stats())["cache"]["hits"])
            if hits >= report.cached or time.monotonic() > over_s:
                return hits
            await asyncio.sleep(POLL_S)


def _next(texts: Iterator[str], count: int) -> Sequence[str]:
    return list(islice(texts, count))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
