"""`make bench`: one line per figure, never part of the tests."""

import argparse
import asyncio
import sys

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen import steady


def main(argv: list[str] | None = None) -> int:
    """Measure and print; the exit code is 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.bench", description=__doc__)
    parser.add_argument("--only", choices=["loadgen"], help="a part alone (there is one yet)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each arm, interleaved")
    parser.add_argument("--seconds", type=float, default=steady.SECONDS, help="length of a run")
    options = parser.parse_args(argv)
    brokers = ["streams"]
    try:
        find_rabbitmq_server()
        brokers.append("rabbitmq")
    except OperatorError as error:
        _say(f"without RabbitMQ: {error}")
    figures = asyncio.run(steady.figures(brokers, rounds=options.rounds, seconds=options.seconds, say=_say))
    sys.stdout.write("\n".join(figure.line() for figure in figures) + "\n")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
