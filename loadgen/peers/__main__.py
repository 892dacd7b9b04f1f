"""`python -m loadgen.peers`: ours beside other servers; `make bench-peers` makes their environment first."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from loadgen.figures import Figure
from loadgen.machine import machine
from loadgen.peers.bench import Bench, now, report, say, surroundings
from loadgen.peers.measuring import Effort
from loadgen.peers.roster import PEERS
from loadgen.reports.environment import ROOT
from loadgen.sweeping.options import completed

PYTHON: Final = ROOT / ".venv-peers" / "bin" / "python"
FOLDER: Final = ROOT / "docs" / "benchmarks"
BROKERS: Final = ("streams", "rabbitmq")
KINDS: Final = ("builtin", "full-size")
QUICK_PEERS: Final = ("litserve", "mosec")
FULL: Final = Effort(seconds=20.0, first_s=3.0, warm_s=1.0)
QUICK: Final = Effort(seconds=4.0, first_s=1.0, warm_s=0.5)
ROUNDS: Final = 3
MOST_ROUNDS: Final = 20
MOST_SECONDS: Final = 600.0
MOST_WORKERS: Final = 64
MAKE_ONE: Final = (
    "the full-size model is left out: make one with `inferq model random TARGET`, and name it with"
    " --full-size TARGET"
)


def main(argv: list[str] | None = None) -> int:
    """Measure, print and write the report; 1 when an arm was not measured, 2 when nothing was, 130 after Ctrl-C."""
    options = _parsed(argv)
    quick = options.quick
    models = {"builtin": "builtin"}
    if options.full_size:
        models["full-size"] = options.full_size
    elif options.kind != "builtin":
        say(MAKE_ONE)
    models = {kind: model for kind, model in models.items() if options.kind in {None, kind}}
    names = options.peer or (QUICK_PEERS if quick else tuple(PEERS))
    base = QUICK if quick else FULL
    bench = Bench(
        models=models,
        peers={name: peer for name, peer in PEERS.items() if name in names},
        brokers=[broker for broker in BROKERS if options.broker in {None, broker}],
        python=options.python,
        effort=replace(base, seconds=options.seconds or base.seconds),
        rounds=options.rounds or (1 if quick else ROUNDS),
        say=say,
        show=_show,
        workers=options.workers,
        spin=options.spin,
    )
    sys.stdout.write(f"{machine()}\n")
    sys.stdout.flush()
    failed = False

    async def whole() -> None:
        nonlocal failed
        began, about = now(), surroundings(models)
        outcomes, versions = await bench.run()
        failed = any(outcome.failed() for outcome in outcomes)
        if options.report is not None:
            words = ["make", "bench-peers"]
            if told := _told(options):
                words.append(f"ARGS={' '.join(told)}")
            page = report(outcomes, versions, words=words, began=began, about=about, folder=options.report)
            sys.stdout.write(f"{page}\n")

    return completed("peers", whole(), say) or int(failed)


def _parsed(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m loadgen.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two peers, one short round")
    parser.add_argument("--peer", action="append", choices=tuple(PEERS), help="a peer alone; may come again")
    parser.add_argument("--broker", choices=BROKERS, help="ours with one broker alone")
    parser.add_argument("--full-size", metavar="FOLDER", help="a full-size model's folder, measured as well")
    parser.add_argument("--kind", choices=KINDS, help="one model alone")
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds ({ROUNDS}; 1 with --quick)")
    parser.add_argument("--seconds", type=float, help="length of a level (20; 4 with --quick)")
    parser.add_argument(
        "--workers", type=int, default=1, help="workers of a peer, which share the cores' threads (1)"
    )
    parser.add_argument("--spin", action="store_true", help="let the threads of peers spin")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where the report goes")
    parser.add_argument("--no-report", action="store_true", help="write no report")
    parser.add_argument(
        "--python", type=Path, default=PYTHON, help="the interpreter of the peers' environment"
    )
    options = parser.parse_args(argv)
    if options.rounds is not None and not 1 <= options.rounds <= MOST_ROUNDS:
        parser.error(f"--rounds goes from 1 to {MOST_ROUNDS}")
    if options.seconds is not None and not 1 <= options.seconds <= MOST_SECONDS:
        parser.error(f"--seconds goes from 1 to {MOST_SECONDS:g}")
    if not 1 <= options.workers <= MOST_WORKERS:
        parser.error(f"--workers goes from 1 to {MOST_WORKERS}")
    if options.kind == "full-size" and not options.full_size:
        parser.error("--kind full-size needs --full-size FOLDER")
    if options.report is None and not options.no_report and not options.quick:
        options.report = FOLDER
    return options


def _told(options: argparse.Namespace) -> list[str]:
    """Return the options that decide what was run, without paths of this machine."""
    told = ["--quick"] if options.quick else []
    for name in options.peer or ():
        told += ["--peer", name]
    for name in ("broker", "kind", "rounds", "seconds"):
        value = getattr(options, name)
        if value is not None:
            told += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    told += ["--workers", str(options.workers)] if options.workers > 1 else []
    told += ["--spin"] if options.spin else []
    return [*told, "--full-size", "FOLDER"] if options.full_size else told


def _show(figures: list[Figure]) -> None:
    sys.stdout.write("".join(f"{figure.line()}\n" for figure in figures))
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
