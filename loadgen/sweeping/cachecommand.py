"""`python -m loadgen cache`: repeating inputs with the cache off, local and shared."""

import argparse
import sys
from dataclasses import replace
from typing import Final

from loadgen.completed import completed
from loadgen.reports.document import aligned
from loadgen.reports.environment import environment
from loadgen.reports.files import write
from loadgen.sweeping import cached, caching, options
from loadgen.sweeping.levels import MOST_RATE

DESCRIPTION: Final = (
    "Inputs that repeat by Zipf's law, with the cache off, local and shared: hits beside the ideal, latency at an"
    " equal load, throughput at saturation."
)
MOST_ROUNDS: Final = 100
DEFAULTS: Final = caching.Repeating()


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = DESCRIPTION
    options.add_pipeline(parser)
    parser.add_argument(
        "--distinct", type=int, default=DEFAULTS.distinct, help=f"distinct texts ({DEFAULTS.distinct})"
    )
    parser.add_argument(
        "--exponent",
        type=float,
        default=DEFAULTS.exponent,
        help=f"of Zipf's law; 0: all equally often ({DEFAULTS.exponent:g})",
    )
    parser.add_argument(
        "--rate",
        type=float,
        help="the equal load, jobs a second (60 %% of what the fitted cost says can be done)",
    )
    parser.add_argument("--rounds", type=int, help=f"runs of each cache, in turn ({caching.FULL.rounds})")
    parser.add_argument(
        "--seconds", type=float, help=f"length of a run at the equal load ({caching.FULL.equal_s:g})"
    )
    options.add_report(parser)


def run(given: argparse.Namespace) -> int:
    """Test, print, write the report; 2 when it could not be done, 130 when it was interrupted."""
    return completed("cache", _test(given), _say)


async def _test(given: argparse.Namespace) -> None:
    effort = caching.QUICK if given.quick else caching.FULL
    if given.rounds is not None:
        options.within("--rounds", given.rounds, 1, MOST_ROUNDS)
        effort = replace(effort, rounds=given.rounds)
    if given.seconds is not None:
        options.within("--seconds", given.seconds, 1, options.MOST_SECONDS)
        effort = replace(effort, equal_s=given.seconds)
    if given.rate is not None:
        options.within("--rate", given.rate, 1, MOST_RATE)
    inputs = caching.Repeating(distinct=given.distinct, exponent=given.exponent)
    inputs.check()
    folder = options.folder(given)
    wanted = options.wanted(given)
    ran_on = environment(given.model, given.precision)
    test = await caching.compared(wanted, inputs, effort, rate=given.rate, seed=given.seed, say=_say)
    sys.stdout.write("\n".join([*aligned(cached.table(test)), "", *cached.conclusions(test), ""]))
    if folder is not None:
        paper = cached.document(test, command=options.command("cache", given, add), environment=ran_on)
        what = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in test.about.split()[0])
        sys.stdout.write(f"\nreport: {write(paper, folder, f'cache-{what}-{given.broker}')}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
