"""`make bench`: one line per figure, never part of the tests."""

import argparse
import sys
from typing import Final

import uvloop

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen import steady
from loadgen.machine import machine, programs

PARTS: Final = ("batching", "admission", "push", "loadgen")
MEASURED: Final = ("loadgen",)
MOST_ROUNDS: Final = 100
MOST_SECONDS: Final = 3_600.0


def main(argv: list[str] | None = None) -> int:
    """Measure and print; the exit code is 0 whatever the figures are, and 2 for a part that has none yet."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="a part alone")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each arm, interleaved")
    parser.add_argument("--seconds", type=float, default=steady.SECONDS, help="length of a run")
    options = parser.parse_args(argv)
    if not 1 <= options.rounds <= MOST_ROUNDS or not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--rounds goes from 1 to {MOST_ROUNDS}, --seconds up to {MOST_SECONDS:g}")
    if options.only not in {None, *MEASURED}:
        _say(f"there are no figures of {options.only} yet, only of {', '.join(MEASURED)}")
        return 2
    brokers = ["streams"]
    try:
        find_rabbitmq_server()
        brokers.append("rabbitmq")
    except OperatorError as error:
        _say(f"without RabbitMQ: {error}")
    sys.stdout.write(f"{machine()}; {programs()}\n")
    sys.stdout.flush()
    figures = uvloop.run(steady.figures(brokers, rounds=options.rounds, seconds=options.seconds, say=_say))
    sys.stdout.write("\n".join(figure.line() for figure in figures) + "\n")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
