"""The benchmark: configurations at loads, each run on a pipeline of its own, in turn, round after round."""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvloop

from inferq.errors import OperatorError
from inferq.modelfolder import resolve
from inferq.modelspec import parse
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
from loadgen.reports.environment import ROOT, environment, model_name
from loadgen.reports.files import write
from loadgen.reports.measured import Best, Run, cells, three
from loadgen.saturation import bare, saturating

FOLDER: Final = ROOT / "docs" / "benchmarks"
TRIES: Final = 2
MOST_ROUNDS: Final = 100
MOST_SECONDS: Final = 3_600.0
MOST_BATCHERS: Final = 64
MOST_NOTES_BYTES: Final = 1_000_000
# Of the bare loop, what one by one is expected to do; and how long either is measured.
EXPECTED_SHARE: Final = 0.8
CAPACITY_S: Final = 15.0
ONE_BY_ONE: Final = "1:0"
# What a command names where it is not the default; --out and --notes change nothing that is measured.
TOLD: Final = (
    "broker",
    "model",
    "precision",
    "batchers",
    "rounds",
    "seed",
    "schedule",
    "warm",
    "budget",
    "patience",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "loads",
        metavar="RPS",
        help="jobs a second, or a share of what is done one by one: 150 or 60,150 or 75%%,188%%",
    )
    parser.add_argument("seconds", type=float, metavar="SECONDS", help="how long each run is counted")
    parser.add_argument("arms", nargs="+", metavar="CONFIG", help=arms.ALLOWED_ARM)
    parser.add_argument("--broker", choices=("streams", "rabbitmq"), default="streams")
    parser.add_argument("--model", default="builtin", help="as INFERQ_MODEL (builtin)")
    parser.add_argument("--precision", choices=("fp32", "int8", "fp16"), default="fp32")
    parser.add_argument("--batchers", type=int, default=1, help="batchers of each pipeline (1)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each configuration at each load (3)")
    parser.add_argument("--seed", type=int, default=0, help="decides texts and drawn arrivals (0)")
    parser.add_argument(
        "--schedule", choices=("constant", "poisson"), default="constant", help="of arrivals (constant)"
    )
    parser.add_argument(
        "--warm", type=float, default=3.0, metavar="SECONDS", help="sent first and not counted (3)"
    )
    parser.add_argument("--budget", type=float, default=200.0, metavar="MS", help="what in time means (200)")
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="how long results are waited for (SECONDS and 60 more)",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="where the report goes")
    parser.add_argument("--notes", type=Path, metavar="FILE", help="Markdown that goes into the report")


def run(options: argparse.Namespace) -> int:
    """Measure, print tables, write the report. Raises `OperatorError` for what cannot be run."""
    try:
        page = uvloop.run(_Bench(options).run())
    except ConnectionError as error:
        raise OperatorError(f"a run failed: {error}") from error
    sys.stdout.write(f"\nreport: {page}\n")
    return 0


@dataclass(frozen=True, kw_only=True)
class _Load:
    name: str
    rate: float


class _Bench:
    """A benchmark as it was asked for. Raises `OperatorError` for what cannot be run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
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
            lines = aligned(table(found, spreads=False))
            sys.stdout.write("\n".join(["", heading(one.name, one.rate), *lines, ""]))
        document = compared(
            asked,
            runs,
            command=_command(options),
            began_at=began_at,
            environment=self._environment,
            notes=self._notes,
        )
        return write(document, options.out, f"benchmark-{_filed(asked.model)}-{options.broker}")

    async def _capacity(self) -> float:
        """Return what is done one by one at saturation, a second."""
        options = self._options
        _say("what is done one by one, at saturation")
        loops = await bare(options.model, seconds=CAPACITY_S / 3, loops=(ALONE,))
        found = await saturating(
            options.broker,
            options.model,
            expected=loops.rate(ALONE) * EXPECTED_SHARE,
            seconds=CAPACITY_S,
            say=_say,
            precision=options.precision,
            batchers=str(options.batchers),
            **arms.arm(ONE_BY_ONE).changes,
        )
        if not found.enough:
            raise OperatorError("saturation was not reached one by one: give jobs a second instead of shares")
        return found.done_per_s

    async def _rounds(self, loads: Sequence[_Load]) -> list[Run]:
        found: list[Run] = []
        total = self._options.rounds * len(loads) * len(self._arms)
        for number in range(self._options.rounds):
            for one in loads:
                for arm in turned(self._arms, number):
                    run = await self._valid(one, arm, number)
                    found.append(run)
                    _say(
                        f"{len(found)} of {total}: {three(one.rate)} jobs/s, {arm.label}: {three(run.throughput)} done"
                        f" a second, p50 {three(run.pushed_ms(0.5))}, p99 {three(run.pushed_ms(0.99))} ms"
                        + (f", INVALID: {'; '.join(run.report.invalid)}" if run.report.invalid else "")
                    )
        order = {arm.label: number for number, arm in enumerate(self._arms)}
        return sorted(found, key=lambda run: (order[run.arm], run.number))

    async def _valid(self, one: _Load, arm: Arm, number: int) -> Run:
        """Run a configuration once, and once more where the first run is invalid."""
        tries: list[list[str]] = []
        while True:
            run = await self._once(one, arm, number, tries)
            if run.valid or len(tries) + 1 >= TRIES:
                return run
            _say(f"again: {'; '.join(run.report.invalid)}")
            tries.append(run.report.invalid)

    async def _once(self, one: _Load, arm: Arm, number: int, tries: list[list[str]]) -> Run:
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


def _command(options: argparse.Namespace) -> str:
    """Return the command that was given, with names in place of paths: another machine has others."""
    words = ["bash", "scripts/benchmark.sh", options.loads, f"{options.seconds:g}", *options.arms]
    parser = argparse.ArgumentParser()
    add(parser)
    for name in TOLD:
        value = getattr(options, name)
        if value != parser.get_default(name):
            words += [f"--{name}", _word(name, value)]
    return shlex.join(words)


def _word(name: str, value: object) -> str:
    if name == "model":
        return model_name(str(value))
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _filed(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
