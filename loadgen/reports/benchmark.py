"""The benchmark: configurations at loads, each run on a pipeline of its own, in turn, round after round."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError, first_line
from inferq.modelspec import ModelKind, parse
from inferq.rabbitnode import find_rabbitmq_server
from inferq.settings import load
from loadgen.bareloops import ALONE
from loadgen.deployment import deployed
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.run import generated
from loadgen.ideal import Course
from loadgen.reports import arms
from loadgen.reports.arms import Arm, turned
from loadgen.reports.comparison import LEGEND, Asked, compared, heading, table
from loadgen.reports.document import aligned
from loadgen.reports.environment import environment, model_name
from loadgen.reports.files import write
from loadgen.reports.measured import Run, cells, three
from loadgen.saturation import bare, saturating
from loadgen.simulated import fitted_of, simulated_plan

TRIES: Final = 2
MOST_ROUNDS: Final = 100
MOST_SECONDS: Final = 3_600.0
MOST_BATCHERS: Final = 64
MOST_NOTES_BYTES: Final = 1_000_000
# Of the bare loop, what one by one is expected to do; and how long either is measured.
EXPECTED_SHARE: Final = 0.8
CAPACITY_S: Final = 15.0
CAPACITY_TRIES: Final = 3
ONE_BY_ONE: Final = "1:0"
# A simulated job that takes no time is done at the rate of the pipeline, not of the engine.
LEAST_SIMULATED_MS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class _Load:
    name: str
    rate: float


class Bench:
    """A benchmark as the options of `loadgen.reports.benchcommand` ask for it; ``command`` stands in the report.

    Raises `OperatorError` for what cannot be run.
    """

    def __init__(self, options: argparse.Namespace, *, command: str) -> None:
        self._options, self._command = options, command
        self._arms = arms.arms(options.arms)
        self._given = arms.loads(options.loads)
        _within("SECONDS", options.seconds, 1, MOST_SECONDS)
        _within("--rounds", options.rounds, 1, MOST_ROUNDS)
        _within("--batchers", options.batchers, 1, MOST_BATCHERS)
        _within("--warm", options.warm, 0, MOST_SECONDS)
        _within("--budget", options.budget, 1, 1000 * MOST_SECONDS)
        self._patience_s = options.seconds + 60.0 if options.patience is None else options.patience
        _within("--patience", self._patience_s, 1, MOST_SECONDS)
        self._notes = _read(options.notes) if options.notes else ""
        if options.broker == "rabbitmq":
            find_rabbitmq_server()
        self._environment = environment(options.model, options.precision)
        self._common = {
            "model": options.model,
            "precision": options.precision,
            "batchers": str(options.batchers),
        }
        self._place = {arm.label: number for number, arm in enumerate(self._arms)}
        self._loads: list[_Load] = []
        self._capacity: float | None = None
        self._runs: list[Run] = []
        self._began_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def run(self) -> None:
        """Measure, print tables, write the report; of what there is where a run fails or all is cancelled.

        Raises `ConnectionError` or `OperatorError` when a run failed for good.
        """
        try:
            await self._measure()
        except asyncio.CancelledError:
            self._tell("it was interrupted")
            raise
        except (OSError, OperatorError) as error:
            # What was measured so far may have taken an hour: it is said and written, as what it is.
            self._tell(f"a run failed, {first_line(error)}")
            raise
        self._tell()

    async def _measure(self) -> None:
        if any(one.share for one in self._given):
            self._capacity = await self._one_by_one()
        self._loads = [_Load(name=one.name, rate=one.at(self._capacity or 0.0)) for one in self._given]
        await self._rounds()

    def _tell(self, ended_early: str = "") -> None:
        """Print and write what was measured; ``ended_early`` says why that is not all."""
        options = self._options
        if not self._runs:
            _say("no run was over, so there is no report")
            return
        runs = sorted(self._runs, key=lambda run: (self._place[run.arm], run.number))
        asked = Asked(
            arms=self._arms,
            loads={one.name: one.rate for one in self._loads},
            seconds=options.seconds,
            warm_s=options.warm,
            rounds=options.rounds,
            seed=options.seed,
            schedule=options.schedule,
            broker=options.broker,
            model=model_name(options.model),
            batchers=options.batchers,
            budget_ms=options.budget,
            patience_s=self._patience_s,
            capacity=self._capacity,
        )
        for one in self._loads:
            found = [cell for cell in cells(runs) if cell.load == one.name]
            if found:
                lines = aligned(table(found, short=True))
                sys.stdout.write("\n".join(["", heading(one.name, one.rate), *lines, ""]))
        sys.stdout.write(f"\n{LEGEND}\n")
        document = compared(
            asked,
            runs,
            command=self._command,
            began_at=self._began_at,
            environment=self._environment,
            notes=self._notes,
            ended_early=ended_early,
        )
        page = write(document, options.out, f"benchmark-{_filed(asked.model)}-{options.broker}")
        sys.stdout.write(f"\n{document.asked[0]}\n" if ended_early else "")
        sys.stdout.write(f"\nreport: {page}\n")

    async def _one_by_one(self) -> float:
        """Return what is done one by one at saturation, a second."""
        options = self._options
        _say("what is done one by one, at saturation")
        expected = EXPECTED_SHARE * await _alone(options.model)
        for _ in range(CAPACITY_TRIES):
            found = await saturating(
                options.broker,
                options.model,
                expected=expected,
                seconds=CAPACITY_S,
                say=_say,
                precision=options.precision,
                batchers=str(options.batchers),
                **arms.arm(ONE_BY_ONE).changes,
            )
            if found.enough:
                return found.done_per_s
            # The loop alone was disturbed, and did much less than the pipeline does.
            expected = 2 * max(expected, found.done_per_s)
        raise OperatorError("saturation was not reached one by one: give jobs a second instead of shares")

    async def _rounds(self) -> None:
        total = self._options.rounds * len(self._loads) * len(self._arms)
        for number in range(self._options.rounds):
            for one in self._loads:
                for arm in turned(self._arms, number):
                    run = await until_valid(partial(self._once, one, arm, number), say=_say)
                    self._runs.append(run)
                    _say(
                        f"{len(self._runs)} of {total}: {three(one.rate)} jobs/s, {arm.label}:"
                        f" {three(run.throughput)} done a second, p50 {three(run.pushed_ms(0.5))},"
                        f" p99 {three(run.pushed_ms(0.99))} ms"
                        + (f", INVALID: {'; '.join(run.report.invalid)}" if run.report.invalid else "")
                    )

    async def _once(self, one: _Load, arm: Arm, number: int, tries: Sequence[list[str]]) -> Run:
        options = self._options
        changes = {**self._common, **arm.changes}
        settings, _ = load({}, changes)
        async with deployed(options.broker, **changes) as deployment:
            plan = Plan(
                url=deployment.url,
                schedule=Schedule(
                    kind=options.schedule, rate=one.rate, seconds=options.warm + options.seconds
                ),
                seed=options.seed + number,
                warm_s=options.warm,
                follow="push",
                budget_ms=options.budget,
                patience_s=self._patience_s,
                pids=deployment.pids(),
            )
            report = await generated(plan)
            warm = deployment.warm
        try:
            ideal: Course | None = simulated_plan(plan, settings, fitted_of(settings, warm)).course
        except ValueError:
            ideal = (
                None  # There is none of several batchers, of very long runs, and where nothing was fitted.
            )
        return Run(
            load=one.name,
            arm=arm.label,
            number=number,
            full=settings.max_batch_size,
            report=report,
            best=ideal,
            tries=list(tries),
        )


async def until_valid(
    once: Callable[[Sequence[list[str]]], Awaitable[Run]], *, say: Callable[[str], None]
) -> Run:
    """Run once, and once more where that was invalid or failed; ``once`` is told why the tries before it did not count.

    Where the last try failed, an invalid run before it is what there is. Raises `ConnectionError` when there is none.
    """
    tries: list[list[str]] = []
    kept: Run | None = None
    while True:
        last = len(tries) + 1 >= TRIES
        try:
            run = await once(tries)
        except ConnectionError as error:
            if last:
                if kept is None:
                    raise
                say(f"the second try failed, so the first one stands: {first_line(error)}")
                return kept
            reasons = [f"it failed: {error}"]
        else:
            if run.valid or last:
                return run
            kept, reasons = run, run.report.invalid
        say(f"again: {'; '.join(reasons)}")
        tries.append(reasons)


async def _alone(model: str) -> float:
    """Return about what the engine alone does of one by one, a second."""
    spec = parse(model)
    if spec.kind is ModelKind.SIMULATED:
        return 1000 / max(spec.tau0_ms + spec.alpha_ms, LEAST_SIMULATED_MS)
    loops = await bare(model, seconds=CAPACITY_S / 3, loops=(ALONE,))
    return loops.rate(ALONE)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise OperatorError(f"{name} {value:g} is not allowed: it must be from {least:g} to {most:g}")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(MOST_NOTES_BYTES + 1)
        if len(read) > MOST_NOTES_BYTES:
            raise OperatorError(f"--notes {path}: {MOST_NOTES_BYTES:,} bytes are the most")
        return read.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"--notes {path} cannot be read: {error}") from error


def _filed(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
