"""`make bench`: one line per figure, never part of the tests."""

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, Protocol

import uvloop

from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from loadgen import admission, batching, instrument, push
from loadgen.figures import Figure
from loadgen.machine import machine, programs
from loadgen.parts import Asked
from loadgen.schedules import MOST_SECONDS

BROKERS: Final = ("streams", "rabbitmq")
MOST_ROUNDS: Final = 100


class Runs(Protocol):
    """A bench that was made."""

    async def run(self, wanted: Sequence[str]) -> bool: ...


BENCHES: Final[dict[str, Callable[[Asked], Runs]]] = {
    "batching": batching.bench,
    "admission": admission.bench,
    "push": push.bench,
    "loadgen": instrument.bench,
}
PARTS: Final[dict[str, Collection[str]]] = {
    "batching": batching.PARTS,
    "admission": admission.PARTS,
    "push": push.PARTS,
    "loadgen": instrument.PARTS,
}


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 1 when some could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.bench", description=__doc__)
    parser.add_argument("--only", choices=list(BENCHES), help="a bench alone")
    parser.add_argument(
        "--part",
        action="append",
        choices=[name for names in PARTS.values() for name in names],
        help="a part of a bench alone; may come again",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    size.add_argument(
        "--brief", action="store_true", help="so short that it shows only whether a part works: no figures"
    )
    parser.add_argument("--rounds", type=int, help="runs of each arm, interleaved")
    parser.add_argument("--broker", choices=BROKERS, help="a broker alone")
    parser.add_argument("--seconds", type=float, help="length of a run of the steady load (30)")
    parser.add_argument(
        "--full-size",
        metavar="FOLDER",
        default="",
        help="a full-size model's folder, as `inferq model random` makes it (batching, costs)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what was found as JSON too (costs)")
    options = parser.parse_args(argv)
    rounds_fit = options.rounds is None or 1 <= options.rounds <= MOST_ROUNDS
    if not rounds_fit or not (options.seconds is None or 0 < options.seconds <= MOST_SECONDS):
        parser.error(f"--rounds goes from 1 to {MOST_ROUNDS}, --seconds up to {MOST_SECONDS:g}")
    wanted = set(options.part or ())
    if wanted and options.only is None:
        options.only = next((one for one, names in PARTS.items() if wanted & set(names)), None)
    if strange := sorted(wanted - set(PARTS[options.only])) if wanted else []:
        parser.error(f"{options.only} has no part {', '.join(strange)}")
    if options.out is not None and wanted != {"costs"}:
        parser.error("--out is for --part costs alone")
    brokers = _brokers(options.broker)
    if not brokers:
        return 1
    sys.stdout.write(f"{machine()}; {programs()}\n")
    sys.stdout.flush()
    asked = Asked(
        brokers=brokers,
        size="brief" if options.brief else "quick" if options.quick else "full",
        rounds=options.rounds,
        seconds=options.seconds,
        full_size=options.full_size,
        out=options.out,
        say=_say,
        show=_show,
    )
    whole = True
    for name, bench in BENCHES.items():
        if options.only in {None, name}:
            whole &= uvloop.run(bench(asked).run(options.part or list(PARTS[name])))
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


def _show(figures: list[Figure]) -> None:
    sys.stdout.write("".join(f"{figure.line()}\n" for figure in figures))
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
