"""`python -m loadgen.generator`: reads a `Plan` as a line of JSON, says each second how far it is, then its `Report`.

A process of its own, which ends with its standard input.
"""

import gc
import select
import sys
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from inferq.errors import OperatorError, first_line
from inferq.ports import LOOPBACK
from loadgen.generator.ledger import Ledger
from loadgen.generator.plan import Inputs, Plan, due_s
from loadgen.generator.priority import first
from loadgen.generator.reading import Reading
from loadgen.generator.report import Report
from loadgen.generator.requests import requests
from loadgen.generator.said import Progress, Said
from loadgen.generator.sending import Sending
from loadgen.generator.summary import report
from loadgen.generator.wire import Poll, reached


def carry_out(plan: Plan, poll: Poll) -> Report:
    """Send a plan and say each second what has come.

    Raises:
        OperatorError: the plan is out of bounds.
        OSError: the server is not there.
    """
    ledger = Ledger(due_s(plan.schedule, plan.seed), warm_s=plan.warm_s, expect=plan.expect)
    made = requests(plan, len(ledger.due_s))
    parts = urlsplit(plan.url)
    address = reached(parts.hostname or LOOPBACK, parts.port or 80)

    def say(second: int) -> None:
        now = Progress(
            at_s=second, sent=ledger.sent, accepted=ledger.accepted, ended=ledger.ended, failed=ledger.failed
        )
        _write(Said(progress=now))

    sending = Sending(plan, made, ledger, poll, address)
    began_s, began_at_s = time.monotonic(), time.time()
    with first():
        used = sending.go(say)
    start_at_s = began_at_s + sending.start_s - began_s
    if plan.follow == "records":
        until_s = sending.start_s + plan.schedule.seconds + plan.patience_s
        Reading(plan, sending.ids, ledger, start_at_s=start_at_s).go(poll, address, until_s=until_s)
    began_at = datetime.fromtimestamp(start_at_s, UTC).isoformat(timespec="milliseconds")
    return report(plan, ledger, began_at=began_at.replace("+00:00", "Z"), used=used)


def _write(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _gone(mask: int) -> None:
    """Whoever asked for the run has closed our standard input, or is no more."""
    raise SystemExit(1)


def main() -> int:
    """Carry out the plan on the standard input; 1 with one line when the server is not there."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
    # Nothing here makes cycles, and a collection would make the next sends late.
    gc.disable()
    poll = Poll()
    poll.add(sys.stdin.fileno(), select.EPOLLIN, _gone)
    try:
        found = carry_out(plan, poll)
    except OperatorError as error:
        _write(Said(refused=str(error)))
        return 0
    except OSError as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 1
    # Whoever asked has the plan; its texts and its key need not travel back.
    bare = msgspec.structs.replace(plan, key="", inputs=Inputs(), schedule=type(plan.schedule)())
    _write(Said(report=msgspec.structs.replace(found, plan=bare)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
