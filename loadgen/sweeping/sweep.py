"""Runs a sweep: level after level against one target, the queue drained in between."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from inferq.snippets import snippets
from loadgen.fitted import Fitted
from loadgen.generator.plan import MOST_TEXTS, Inputs, Plan, Schedule, due_s
from loadgen.generator.report import Report
from loadgen.ideal import throughput
from loadgen.parts import Say
from loadgen.schedules import MOST_REQUESTS
from loadgen.simulated import simulated_plan
from loadgen.sweeping import closedform, levels
from loadgen.sweeping.closed import closed
from loadgen.sweeping.guess import guessed
from loadgen.sweeping.row import Row, row
from loadgen.sweeping.search import Search
from loadgen.sweeping.swept import STAMP, Swept
from loadgen.sweeping.target import Target
from loadgen.sweeping.words import line
from loadgen.texts import dealt
from loadgen.tokens import tokens_of

Generate = Callable[[Plan], Awaitable[Report]]

TRY_S: Final = 4.0
CLOSED_S: Final = 15.0
DRAINED_WITHIN_S: Final = 120.0
# A search sends texts of its own seeds.
SEARCH_SEED: Final = 10_000
MOST_ROWS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to sweep through: rates or, of a closed loop, concurrencies; with neither, around what is found first.

    ``shares`` are of the capacity that is found, ``seconds`` (0: as long as the knee's rule wants) is a level's length
    without its warm-up, ``try_s`` that of a try of the search.
    """

    rates: Sequence[float] = ()
    concurrencies: Sequence[int] = ()
    shares: Sequence[float] = levels.SHARES
    seconds: float = 0.0
    try_s: float = TRY_S
    seed: int = 0
    budget_ms: float = 200.0


class Sweep:
    """One sweep; ``swept`` tells at any time what there is."""

    def __init__(self, target: Target, order: Order, *, generate: Generate, say: Say) -> None:
        self._target, self._order, self._generate, self._say = target, order, generate, say
        self._texts = dealt(MOST_REQUESTS, seed=order.seed)
        self._rows: list[Row] = []
        self._began_at = datetime.now(UTC).strftime(STAMP)
        self._planned = len(order.rates or order.concurrencies or order.shares)
        self._capacity: float | None = None
        self._no_ideal = self._no_form = ""
        self._fitted: Fitted | None = None

    def swept(self) -> Swept:
        """Return the levels that are over."""
        return Swept(
            loop="closed" if self._order.concurrencies else "open",
            server=self._target.server,
            seed=self._order.seed,
            began_at=self._began_at,
            rows=tuple(self._rows),
            planned=self._planned,
            capacity=self._capacity,
            budget_ms=self._order.budget_ms,
            no_ideal=self._no_ideal,
            no_closed_form=self._no_form,
        )

    async def run(self) -> Swept:
        """Run all levels.

        Raises:
            OperatorError: no capacity is found, or a level is out of bounds.
            ConnectionError: the target is away.
        """
        if self._order.concurrencies:
            return await self._closed()
        self._read_fit()
        rates = list(self._order.rates)
        if not rates:
            self._capacity = await self._searched()
            self._say(f"about {self._capacity:.4g} jobs/s are done at most; levels are laid around that")
            rates = levels.around(self._capacity, self._order.shares)
        seconds = self._order.seconds or levels.long_enough_s(
            self._capacity or guessed(self._target) or max(rates),
            most_rows=self._target.server.most_rows or MOST_ROWS,
            lanes=(self._target.server.lanes or 1) * (self._target.server.batchers or 1),
        )
        for number, rate in enumerate(rates):
            await self._drain()
            found = await self._level(self._plan(rate, seconds, seed=self._order.seed + number))
            self._rows.append(found)
            self._say(f"level {number + 1} of {len(rates)}: {line(found)}")
        return self.swept()

    async def _level(self, plan: Plan) -> Row:
        report = await self._valid(plan)
        settings = self._target.settings
        most_rows = self._target.server.most_rows
        if self._fitted is None or settings is None:
            return row(report, most_rows=most_rows)
        try:
            simulated = simulated_plan(plan, settings, self._fitted)
        except ValueError as error:
            return row(report, most_rows=most_rows, note=f"no ideal: {error}")
        bounds = None
        if not self._no_form:
            bounds = closedform.bounds(
                self._fitted,
                report.offered / report.seconds,
                simulated.lengths,
                full_share=report.batches.full_share(settings.max_batch_size),
            )
        return row(report, most_rows=most_rows, ideal=simulated.course, bounds=bounds)

    async def _valid(self, plan: Plan) -> Report:
        """Run a plan; once more when the generator itself was late or short of CPU, for that may have been chance."""
        report = await self._generate(plan)
        if not report.invalid:
            return report
        self._say(f"once more: {'; '.join(report.invalid)}")
        await self._drain()
        again = await self._generate(plan)
        return again if len(again.invalid) <= len(report.invalid) else report

    def _plan(self, rate: float, seconds: float, *, seed: int) -> Plan:
        warm_s = levels.warm_s(seconds)
        schedule = Schedule(kind="poisson", rate=rate, seconds=warm_s + seconds)
        wanted = len(due_s(schedule, seed))
        return Plan(
            url=self._target.url,
            key=self._target.key,
            schedule=schedule,
            # No level sends what another one has sent: a running pipeline may have a cache.
            inputs=Inputs(texts=tuple(islice(self._texts, wanted)) if wanted <= MOST_TEXTS else ()),
            seed=seed,
            warm_s=warm_s,
            follow="push",
            budget_ms=self._order.budget_ms,
            # Of an overloaded level as much is left as came in vain, which takes as long again at most.
            patience_s=DRAINED_WITHIN_S,
        )

    def _read_fit(self) -> None:
        try:
            self._fitted = self._target.fitted()
        except ValueError as error:
            self._no_ideal = self._no_form = str(error)
            return
        settings = self._target.settings
        if settings is not None:
            lengths = tokens_of(settings.model, snippets())
            self._no_form = closedform.applies(self._fitted, settings, lengths)

    async def _searched(self) -> float:
        search = Search(guessed(self._target))
        seed = SEARCH_SEED + self._order.seed
        while search.capacity is None:
            await self._drain()
            report = await self._generate(self._plan(search.rate, self._order.try_s, seed=seed))
            offered, achieved = report.offered / report.seconds, throughput(report)
            self._say(f"search: {offered:.1f}/s offered, {achieved:.1f}/s done")
            search.tried(offered, achieved)
            seed += 1
        return search.capacity

    async def _closed(self) -> Swept:
        order = self._order
        self._no_ideal = self._no_form = "a closed loop has no arrivals of its own"
        for number, in_flight in enumerate(order.concurrencies):
            await self._drain()
            found = await closed(
                self._target.url,
                key=self._target.key,
                in_flight=in_flight,
                seconds=order.seconds or CLOSED_S,
                texts=self._texts,
                budget_ms=order.budget_ms,
                most_rows=self._target.server.most_rows,
            )
            self._rows.append(found)
            self._say(f"level {number + 1} of {self._planned}: {line(found, open_loop=False)}")
        return self.swept()

    async def _drain(self) -> None:
        if not await self._target.drained(within_s=DRAINED_WITHIN_S):
            self._say(
                f"the queue was not empty after {DRAINED_WITHIN_S:g} s: the next level begins with what is left"
            )
