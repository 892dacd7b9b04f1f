"""Compare configurations of the batcher at one load or several, and write a report."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Final

from loadgen.completed import completed
from loadgen.reports.arms import ALLOWED_ARM
from loadgen.reports.benchmark import Bench
from loadgen.reports.environment import ROOT, model_name

FOLDER: Final = ROOT / "docs" / "benchmarks"
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
    parser.add_argument("arms", nargs="+", metavar="CONFIG", help=ALLOWED_ARM)
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
    """Measure, print tables, write the report; 2 when a run failed for good, 130 after Ctrl-C.

    Raises `OperatorError` for what cannot be run.
    """
    return completed("benchmark", Bench(options, command=_command(options)).run(), _say)


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


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
