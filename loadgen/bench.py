"""`make bench`: one line per figure, never part of the tests."""

import argparse
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import uvloop

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen import admission, batching, push, steady
from loadgen.figures import Figure
from loadgen.machine import machine, programs
from loadgen.schedules import MOST_SECONDS

PARTS: Final = ("batching", "admission", "push", "loadgen")
BROKERS: Final = ("streams", "rabbitmq")
OWN_PARTS: Final[dict[str, Collection[str]]] = {
    "batching": batching.PARTS,
    "admission": admission.PARTS,
    "push": push.PARTS,
}
ROUNDS: Final = 3
MOST_ROUNDS: Final = 100


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 1 when some could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="a part alone")
    parser.add_argument(
        "--part",
        action="append",
        choices=[name for names in OWN_PARTS.values() for name in names],
        help="a part of batching, admission or push alone; may come again",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter runs (batching, admission, push)"
    )
    parser.add_argument(
        "--rounds", type=int, help="runs of each arm, interleaved (admission, push, loadgen: 3)"
    )
    parser.add_argument("--broker", choices=BROKERS, help="a broker alone")
    parser.add_argument("--seconds", type=float, default=steady.SECONDS, help="length of a run (loadgen; 30)")
    parser.add_argument(
        "--full-size",
        metavar="FOLDER",
        help="a full-size model's folder, as `inferq model random` makes it (batching)",
    )
    options = parser.parse_args(argv)
    rounds_fit = options.rounds is None or 1 <= options.rounds <= MOST_ROUNDS
    if not rounds_fit or not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--rounds goes from 1 to {MOST_ROUNDS}, --seconds up to {MOST_SECONDS:g}")
    wanted = set(options.part or ())
    if wanted and options.only is None:
        options.only = next((one for one, names in OWN_PARTS.items() if wanted & set(names)), None)
    if strange := sorted(wanted - set(OWN_PARTS.get(options.only, ()))) if wanted else []:
        parser.error(f"{options.only} has no part {', '.join(strange)}")
    brokers = _brokers(options.broker)
    if not brokers:
        return 1
    sys.stdout.write(f"{machine()}; {programs()}\n")
    sys.stdout.flush()
    whole = True
    if options.only in {None, "batching"}:
        whole &= _batching(options, brokers)
    if options.only in {None, "admission"}:
        whole &= _admission(options, brokers)
    if options.only in {None, "push"}:
        whole &= _push(options, brokers)
    if options.only in {None, "loadgen"}:
        rounds = options.rounds or ROUNDS
        _show(uvloop.run(steady.figures(brokers, rounds=rounds, seconds=options.seconds, say=_say)))
    return 0 if whole else 1


def _brokers(wanted: str | None) -> list[str]:
    """Return the brokers that are wanted and there."""
    brokers = [broker for broker in BROKERS if wanted in {None, broker}]
    if "rabbitmq" in brokers:
        try:
            find_rabbitmq_server()
        except OperatorError as error:
            _say(f"without RabbitMQ: {error}")
            brokers.remove("rabbitmq")
    return brokers


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


def _admission(options: argparse.Namespace, brokers: list[str]) -> bool:
    effort = admission.QUICK if options.quick else admission.FULL
    if options.rounds is not None:
        effort = replace(effort, rounds=options.rounds)
    bench = admission.Bench(brokers=brokers, effort=effort, say=_say, show=_show)
    return uvloop.run(bench.run(options.part or list(admission.PARTS)))


def _push(options: argparse.Namespace, brokers: list[str]) -> bool:
    effort = push.QUICK if options.quick else push.FULL
    if options.rounds is not None:
        effort = replace(effort, rounds=options.rounds)
    bench = push.Bench(brokers=brokers, effort=effort, say=_say, show=_show)
    return uvloop.run(bench.run(options.part or list(push.PARTS)))


def _show(figures: list[Figure]) -> None:
    sys.stdout.write("".join(f"{figure.line()}\n" for figure in figures))
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
