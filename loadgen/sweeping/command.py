"""`python -m loadgen sweep`: tail latency by offered load, from light to beyond saturation, and the knee."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from loadgen.completed import completed
from loadgen.generator.run import generated
from loadgen.reports.document import aligned
from loadgen.reports.environment import environment
from loadgen.reports.files import write
from loadgen.sweeping import levels, options
from loadgen.sweeping.paper import about, document
from loadgen.sweeping.sweep import TRY_S, Order, Sweep
from loadgen.sweeping.swept import Swept
from loadgen.sweeping.words import conclusions, ideals, table

DESCRIPTION: Final = (
    "Load a pipeline level by level, from light to beyond saturation, and find the knee: the highest load at which it"
    " keeps up. Without levels, what it can do is found first."
)
QUICK_SHARES: Final = (0.2, 0.6, 0.9, 1.3)
QUICK_S: Final = 2.0
QUICK_TRY_S: Final = 1.5
DEFAULT_STEPS: Final = 10


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = DESCRIPTION
    options.add_pipeline(parser)
    options.add_target(parser)
    parser.add_argument("--levels", metavar="RATES", help="jobs a second, as 10,20,40")
    parser.add_argument("--from", dest="first", type=float, metavar="RATE", help="the lightest level")
    parser.add_argument("--to", dest="last", type=float, metavar="RATE", help="the heaviest level")
    parser.add_argument("--steps", type=int, help=f"levels from --from to --to ({DEFAULT_STEPS})")
    parser.add_argument(
        "--concurrency", metavar="NUMBERS", help="a closed loop: requests in flight, as 1,2,4,8"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="length of a level (as long as the rule of the knee wants)"
    )
    parser.add_argument(
        "--budget", type=float, default=200.0, metavar="MS", help="what goodput counts by (200)"
    )
    options.add_report(parser)


def run(given: argparse.Namespace) -> int:
    """Sweep, print, write the report; 2 when it could not be done, 130 when it was interrupted."""
    return completed("sweep", _sweep(given), _say)


def ordered(given: argparse.Namespace) -> Order:
    """Return what the options ask for; raises `OperatorError` for what cannot be."""
    ways = [
        given.levels is not None,
        given.first is not None or given.last is not None or given.steps is not None,
        given.concurrency is not None,
    ]
    if sum(ways) > 1:
        raise OperatorError("give --levels, or --from and --to, or --concurrency, or none of them")
    if given.seconds:
        options.within("--seconds", given.seconds, 1, options.MOST_SECONDS)
    options.within("--budget", given.budget, 1, 1000 * options.MOST_SECONDS)
    rates: list[float] = []
    if given.levels is not None:
        rates = levels.listed(given.levels)
    elif ways[1]:
        if given.first is None or given.last is None:
            raise OperatorError("--from and --to come together")
        rates = levels.spread(given.first, given.last, DEFAULT_STEPS if given.steps is None else given.steps)
    return Order(
        rates=rates,
        concurrencies=[] if given.concurrency is None else levels.in_flight(given.concurrency),
        seconds=given.seconds or (QUICK_S if given.quick else 0.0),
        seed=given.seed,
        budget_ms=given.budget,
        shares=QUICK_SHARES if given.quick else levels.SHARES,
        try_s=QUICK_TRY_S if given.quick else TRY_S,
    )


async def _sweep(given: argparse.Namespace) -> None:
    order, folder = ordered(given), options.folder(given)
    ran_on = environment("" if given.url else given.model, given.precision)
    async with options.target(given) as target:
        _say(f"sweep of {about(target.server)}")
        sweep = Sweep(target, order, generate=generated, say=_say)
        try:
            swept = await sweep.run()
        except (asyncio.CancelledError, ConnectionError, OperatorError):
            # What was measured so far may have taken an hour: it is said and written, as what it is.
            _show(sweep.swept(), given, folder, ran_on)
            raise
    _show(swept, given, folder, ran_on)


def _show(swept: Swept, given: argparse.Namespace, folder: Path | None, ran_on: dict[str, str]) -> None:
    if not swept.rows:
        _say("no level was run to its end, so there is no report")
        return
    tables = [table(swept), ideals(swept)]
    for found in tables:
        if found is not None:
            sys.stdout.write("\n".join([*aligned(found), "", ""]))
    sys.stdout.write("\n".join([*conclusions(swept), ""]))
    if folder is not None:
        paper = document(swept, command=options.command("sweep", given, add), environment=ran_on)
        sys.stdout.write(f"\nreport: {write(paper, folder, _name(swept))}\n")


def _name(swept: Swept) -> str:
    server = swept.server
    what = "-".join(part for part in (server.model, server.config, server.broker) if part) or "running"
    return "sweep-" + "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in what)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
