"""An open-loop load on a running pipeline: requests go out when they are due, whatever has come back.

Exits with 0 when every job was done (with --follow nothing: accepted), 1 when one was refused or not done, and 2 when
nothing was begun or the run is invalid, since the generator was late or short of CPU.
"""

import argparse
import sys
from pathlib import Path
from typing import Final, get_args

import msgspec
import uvloop

from inferq.errors import OperatorError
from loadgen.generator import target
from loadgen.generator.plan import MOST_TEXTS, Follow, Inputs, Kind, Plan, Schedule, check
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.generator.said import Progress
from loadgen.generator.words import words
from loadgen.machine import machine
from loadgen.schedules import MOST_REQUESTS

MOST_FILE_BYTES: Final = 256 * 1024 * 1024
INVALID: Final = 2


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    schedule, plan = Schedule(), Plan()
    target.add(parser)
    parser.add_argument("--path", default=plan.path, help="where submits go")
    parser.add_argument("--rate", type=float, help="jobs a second (150; a trace keeps its own without it)")
    parser.add_argument("--seconds", type=float, default=schedule.seconds, help="how long (30)")
    parser.add_argument("--schedule", choices=get_args(Kind), default=schedule.kind)
    parser.add_argument("--on", type=float, default=schedule.on_s, metavar="S", help="of on_off (1)")
    parser.add_argument("--off", type=float, default=schedule.off_s, metavar="S", help="of on_off (1)")
    parser.add_argument("--to-rate", type=float, default=0.0, help="of ramp: the rate at its end")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="of trace: a due time in seconds a line")
    parser.add_argument(
        "--text-file", type=Path, metavar="FILE", help="a text a line (default: bundled movie snippets)"
    )
    parser.add_argument("--distinct", type=int, default=0, metavar="N", help="repeat N texts (default: none)")
    parser.add_argument(
        "--zipf", type=float, default=1.0, metavar="S", help="by Zipf's law with exponent S (1)"
    )
    parser.add_argument("--seed", type=int, default=0, help="equal seeds, equal load (0)")
    parser.add_argument("--warm", type=float, default=0.0, metavar="S", help="sent first and not counted (0)")
    parser.add_argument(
        "--follow", choices=get_args(Follow), default=plan.follow, help="how jobs are followed"
    )
    parser.add_argument("--budget", type=float, default=plan.budget_ms, metavar="MS", help="of goodput (200)")
    parser.add_argument("--deadline", type=int, metavar="MS", help="each job's deadline_ms")
    parser.add_argument("--connections", type=int, default=plan.connections, help="keep-alive sockets (64)")
    parser.add_argument(
        "--patience", type=float, default=plan.patience_s, metavar="S", help="after the end (60)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report there, as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry the load out and print what came of it; raises `OperatorError` when it could not begin."""
    plan = _plan(options, target.key_for(options))
    check(plan)
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        raise OperatorError(f"{options.out} cannot be written: give a file in a folder that exists")
    report = uvloop.run(_load(plan))
    sys.stdout.write("".join(f"{line}\n" for line in words(report)))
    if options.out is not None:
        _write(options.out, report)
    if report.invalid:
        return INVALID
    return 0 if (report.accepted if plan.follow == "nothing" else report.done) == report.offered else 1


def _plan(options: argparse.Namespace, key: str) -> Plan:
    traced = options.schedule == "trace"
    if traced != (options.trace is not None):
        raise OperatorError("--trace FILE and --schedule trace go together")
    rate = options.rate if options.rate is not None else 0.0 if traced else Schedule().rate
    if not (rate > 0 or traced or (options.schedule == "ramp" and options.to_rate > 0)):
        raise OperatorError("--rate must be above 0")
    return Plan(
        url=options.url,
        path=options.path,
        key=key,
        schedule=Schedule(
            kind=options.schedule,
            rate=rate,
            seconds=options.seconds,
            on_s=options.on,
            off_s=options.off,
            to_rate=options.to_rate,
            times=tuple(_times(options.trace)) if traced else (),
        ),
        inputs=Inputs(
            texts=tuple(_texts(options.text_file)) if options.text_file is not None else (),
            distinct=options.distinct,
            exponent=options.zipf,
        ),
        seed=options.seed,
        warm_s=options.warm,
        follow=options.follow,
        budget_ms=options.budget,
        deadline_ms=options.deadline,
        connections=options.connections,
        patience_s=options.patience,
    )


async def _load(plan: Plan) -> Report:
    await target.ask(plan.url, plan.key)
    sys.stdout.write(f"{machine()}\n")
    sys.stdout.flush()
    try:
        return await generated(plan, say=_say if sys.stderr.isatty() else None)
    except ConnectionError as error:
        raise OperatorError(str(error)) from error
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def _say(now: Progress) -> None:
    sys.stderr.write(
        f"\r\x1b[K{now.at_s} s: {now.sent} sent, {now.accepted} accepted, {now.ended} ended, {now.failed} failed"
    )
    sys.stderr.flush()


def _texts(path: Path) -> list[str]:
    found = _lines(path, MOST_TEXTS + 1)
    if not 1 <= len(found) <= MOST_TEXTS:
        raise OperatorError(f"{path} must hold from 1 to {MOST_TEXTS:,} texts, one a line")
    return found


def _times(path: Path) -> list[float]:
    try:
        return [float(line) for line in _lines(path, MOST_REQUESTS + 1)]
    except ValueError:
        raise OperatorError(f"{path} must hold a time in seconds on each line, and nothing else") from None


def _lines(path: Path, most: int) -> list[str]:
    """Return the first lines that are not blank, at most so many: one beyond a bound is enough to refuse them."""
    found: list[str] = []
    read_bytes = 0
    try:
        with path.open("rb") as stream:
            while len(found) < most and (line := stream.readline(MOST_FILE_BYTES + 1)):
                read_bytes += len(line)
                if read_bytes > MOST_FILE_BYTES:
                    raise OperatorError(f"{path} is longer than {MOST_FILE_BYTES:,} bytes")
                if text := line.decode().strip():
                    found.append(text)
        return found
    except OSError as error:
        raise OperatorError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise OperatorError(f"{path} is not UTF-8") from None


def _write(path: Path, report: Report) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as error:
        raise OperatorError(f"{path} cannot be written ({error.strerror})") from None
