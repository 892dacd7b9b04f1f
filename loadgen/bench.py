"""`make bench`: one line per figure, never part of the tests."""

import argparse
import sys
from typing import Final

import uvloop

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen import batching, steady
from loadgen.figures import Figure
from loadgen.machine import machine, programs

PARTS: Final = ("batching", "admission", "push", "loadgen")
MEASURED: Final = ("batching", "loadgen")
MOST_ROUNDS: Final = 100
MOST_SECONDS: Final = 3_600.0


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 1 when some could not be measured, 2 for a part without any."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="a part alone")
    loadgen = parser.add_argument_group("loadgen")
    loadgen.add_argument("--rounds", type=int, default=3, help="runs of each arm, interleaved")
    loadgen.add_argument("--seconds", type=float, default=steady.SECONDS, help="length of a run")
    of_batching = parser.add_argument_group("batching")
    of_batching.add_argument(
        "--part",
        action="append",
        choices=tuple(batching.PARTS),
        help="a part of batching alone; may come again",
    )
    of_batching.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    of_batching.add_argument(
        "--full-size", metavar="FOLDER", help="a full-size model's folder, as `inferq model random` makes it"
    )
    options = parser.parse_args(argv)
    if not 1 <= options.rounds <= MOST_ROUNDS or not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--rounds goes from 1 to {MOST_ROUNDS}, --seconds up to {MOST_SECONDS:g}")
    if options.part and options.only is None:
        options.only = "batching"
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
    whole = True
    if options.only in {None, "batching"}:
        whole = _batching(options, brokers)
    if options.only in {None, "loadgen"}:
        _show(uvloop.run(steady.figures(brokers, rounds=options.rounds, seconds=options.seconds, say=_say)))
    return 0 if whole else 1


def _batching(options: argparse.Namespace, brokers: list[str]) -> bool:
    if not options.full_size:
        _say(batching.MAKE_ONE)
    bench = batching.Bench(
        models=batching.models(options.full_size),
        brokers=brokers,
        effort=batching.QUICK if options.quick else batching.FULL,
        say=_say,
        show=_show,
    )
    return uvloop.run(bench.run(options.part or list(batching.PARTS)))


def _show(figures: list[Figure]) -> None:
    sys.stdout.write("".join(f"{figure.line()}\n" for figure in figures))
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
