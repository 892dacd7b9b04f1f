"""The benchmark: configurations at loads, each run on a pipeline of its own, in turn, round after round."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from inferq.errors import OperatorError
from inferq.modelfolder import resolve
from inferq.modelspec import ModelKind, parse
from inferq.rabbitnode import find_rabbitmq_server
from inferq.settings import load
from loadgen.bareloops import ALONE, tokenised
from loadgen.deployment import deployed
from loadgen.fitted import read_fitted
from loadgen.generator.plan import Plan, Schedule, due_s, texts_of
from loadgen.generator.run import generated
from loadgen.reports import arms
from loadgen.reports.arms import Arm, turned
from loadgen.reports.best import best
from loadgen.reports.comparison import Asked, compared, heading, table
from loadgen.reports.document import aligned
from loadgen.reports.environment import environment, model_name
from loadgen.reports.files import write
from loadgen.reports.measured import Best, Run, cells, three
from loadgen.saturation import bare, saturating

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
        self._loads = arms.loads(options.loads)
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

    async def run(self) -> Path:
        """Measure and write; return the report's path."""
        options = self._options
        began_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        capacity = await self._capacity() if any(one.share for one in self._loads) else None
        loads = [
            _Load(name=name, rate=one.at(capacity or 0.0))
            for name, one in zip(options.loads.split(","), self._loads, strict=True)
        ]
        runs = await self._rounds(loads)
        asked = Asked(
            arms=self._arms,
            loads={one.name: one.rate for one in loads},
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
            capacity=capacity,
        )
        for one in loads:
            found = [cell for cell in cells(runs) if cell.load == one.name]
            lines = aligned(table(found, short=True))
            sys.stdout.write("\n".join(["", heading(one.name, one.rate), *lines, ""]))
        document = compared(
            asked,
            runs,
            command=self._command,
            began_at=began_at,
            environment=self._environment,
            notes=self._notes,
        )
        return write(document, options.out, f"benchmark-{_filed(asked.model)}-{options.broker}")

    async def _capacity(self) -> float:
        """Return what is done one by one at saturation, a second."""
        options = self._options
        _say("what is done one by one, at saturation")
        expected = EXPECTED_SHARE * await _one_by_one(options.model)
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

    async def _rounds(self, loads: Sequence[_Load]) -> list[Run]:
        found: list[Run] = []
        total = self._options.rounds * len(loads) * len(self._arms)
        for number in range(self._options.rounds):
            for one in loads:
                for arm in turned(self._arms, number):
                    run = await until_valid(partial(self._once, one, arm, number), say=_say)
                    found.append(run)
                    _say(
                        f"{len(found)} of {total}: {three(one.rate)} jobs/s, {arm.label}: {three(run.throughput)} done"
                        f" a second, p50 {three(run.pushed_ms(0.5))}, p99 {three(run.pushed_ms(0.99))} ms"
                        + (f", INVALID: {'; '.join(run.report.invalid)}" if run.report.invalid else "")
                    )
        order = {arm.label: number for number, arm in enumerate(self._arms)}
        return sorted(found, key=lambda run: (order[run.arm], run.number))

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
        return Run(
            load=one.name,
            arm=arm.label,
            number=number,
            full=settings.max_batch_size,
            report=report,
            best=self._best(plan, changes, warm),
            tries=list(tries),
        )

    def _best(self, plan: Plan, changes: Mapping[str, str], warm: Mapping[str, Any]) -> Best | None:
        """Return the ideal; None where there is none: for several batchers, and where nothing was fitted."""
        if self._options.batchers > 1:
            return None
        try:
            fitted = read_fitted(warm)
        except ValueError:
            return None
        due = due_s(plan.schedule, plan.seed)
        texts = texts_of(plan.inputs, len(due), plan.seed)
        folder = resolve(parse(self._options.model))
        rows = tokenised(folder, texts)[0] if folder is not None else [text.split() for text in texts]
        settings, _ = load({}, changes)
        return best(fitted, settings, due, [len(row) for row in rows], warm_s=plan.warm_s)


async def until_valid(
    once: Callable[[Sequence[list[str]]], Awaitable[Run]], *, say: Callable[[str], None]
) -> Run:
    """Run once, and once more where that was invalid or failed; ``once`` is told why the tries before it did not count.

    Raises `ConnectionError` when the last try failed.
    """
    tries: list[list[str]] = []
    while True:
        last = len(tries) + 1 >= TRIES
        try:
            run = await once(tries)
        except ConnectionError as error:
            if last:
                raise
            reasons = [f"it failed: {error}"]
        else:
            if run.valid or last:
                return run
            reasons = run.report.invalid
        say(f"again: {'; '.join(reasons)}")
        tries.append(reasons)


async def _one_by_one(model: str) -> float:
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
        if path.stat().st_size > MOST_NOTES_BYTES:
            raise OperatorError(f"--notes {path}: {MOST_NOTES_BYTES:,} bytes are the most")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"--notes {path} cannot be read: {error}") from error


def _filed(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
