"""Options that commands which load a pipeline share: which one, how it is configured, and where the report goes."""

import argparse
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen.generator.target import key_for
from loadgen.reports import arms
from loadgen.reports.environment import ROOT, model_name
from loadgen.sweeping.target import Own, Target, own, running

FOLDER: Final = ROOT / "docs" / "benchmarks"
MOST_BATCHERS: Final = 64
MOST_SECONDS: Final = 3_600.0
PRECISIONS: Final = ("fp32", "int8", "fp16")
# What a pipeline of its own is started with, and the defaults.
STARTED_WITH: Final = {
    "broker": "streams",
    "model": "builtin",
    "precision": "fp32",
    "config": "slo",
    "batchers": 1,
}
# What a command that is told leaves out: it changes nothing that is measured, or is of this machine alone.
UNTOLD: Final = frozenset({"out", "key_file", "subcommand"})
# Options whose field has another name.
FLAGS: Final = {"first": "--from", "last": "--to", "allow_remote": "--allow-remote"}


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """Add what a pipeline of its own is started with."""
    parser.set_defaults(**STARTED_WITH)
    parser.add_argument("--broker", choices=("streams", "rabbitmq"), help="(streams)")
    parser.add_argument("--model", help="as INFERQ_MODEL (builtin)")
    parser.add_argument("--precision", choices=PRECISIONS, help="(fp32)")
    parser.add_argument("--config", "--policy", metavar="CONFIG", help=f"{arms.ALLOWED_ARM} (slo)")
    parser.add_argument("--batchers", type=int, help="batchers of the pipeline (1)")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add what aims at a pipeline that runs already."""
    parser.add_argument("--url", help="the ingress of a pipeline that runs already; none is started")
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="holds the API key to send (default: INFERQ_API_KEY)"
    )
    parser.add_argument("--allow-remote", action="store_true", help="aim at a host that is not this one")


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add where the report goes and how the load is drawn."""
    parser.add_argument("--seed", type=int, default=0, help="decides texts and arrivals (0)")
    parser.add_argument("--quick", action="store_true", help="a short form, only to see that it works")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the report goes (docs/benchmarks; of a short form, nowhere)",
    )


def wanted(options: argparse.Namespace, **more: str) -> Own:
    """Return the pipeline to start; raises `OperatorError` for one that cannot be."""
    within("--batchers", options.batchers, 1, MOST_BATCHERS)
    arms.arm(options.config)
    if options.broker == "rabbitmq":
        find_rabbitmq_server()
    return Own(
        broker=options.broker,
        model=options.model,
        precision=options.precision,
        config=options.config,
        batchers=options.batchers,
        **more,
    )


@asynccontextmanager
async def target(options: argparse.Namespace) -> AsyncIterator[Target]:
    """Start a pipeline, or take the one that is named. Raises `OperatorError` where there is none."""
    if options.url is None:
        async with own(wanted(options)) as started:
            yield started
        return
    if strange := [f"--{name}" for name, value in STARTED_WITH.items() if getattr(options, name) != value]:
        raise OperatorError(f"--url aims at a pipeline that runs already: leave out {', '.join(strange)}")
    yield await running(options.url, key=key_for(options))


def folder(options: argparse.Namespace) -> Path | None:
    """Return where the report goes; None for nowhere. Raises `OperatorError` for what is no folder, before all work."""
    named: Path | None = options.out
    if named is not None and named.exists() and not named.is_dir():
        raise OperatorError(f"--out {named} is not a folder")
    return named or (None if options.quick else FOLDER)


def command(name: str, options: argparse.Namespace, add: Callable[[argparse.ArgumentParser], None]) -> str:
    """Return the command that was given, without what changes nothing that is measured, and without paths."""
    parser = argparse.ArgumentParser()
    add(parser)
    words: list[str] = []
    for field, value in vars(options).items():
        if field not in UNTOLD and value != parser.get_default(field):
            flag = FLAGS.get(field, f"--{field}")
            told = model_name(value) if field == "model" else f"{value}"
            words += [flag] if value is True else [flag, told]
    return shlex.join(["python", "-m", "loadgen", name, *words])


def within(name: str, value: float, least: float, most: float) -> None:
    """Raise `OperatorError` for a value out of bounds."""
    if not least <= value <= most:
        raise OperatorError(f"{name} {value:g} is not allowed: it must be from {least:g} to {most:g}")
