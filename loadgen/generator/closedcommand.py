"""A closed loop on a running ingress, for comparison: it hides stalls, since a client that waits does not send.

Exits with 0 when every request was accepted, 1 when one was not, and 2 when nothing was begun.
"""

import argparse
import sys
from typing import Final

import uvloop

from inferq.errors import OperatorError
from loadgen.childwork import ask
from loadgen.generator import target
from loadgen.generator.closed import LABEL, Answers, Closed, check
from loadgen.generator.words import latency_words
from loadgen.machine import machine

WITHIN_S: Final = 86_400.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    target.add(parser)
    parser.add_argument("--requests", type=int, default=10_000, metavar="N", help="how many (10000)")
    parser.add_argument("--threads", type=int, default=16, metavar="T", help="with one in flight each (16)")
    parser.add_argument("--path", default="/v1/infer", help="where submits go")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds, equal texts (0)")


def run(options: argparse.Namespace) -> int:
    """Carry the load out and print what came of it; raises `OperatorError` when it could not begin."""
    order = Closed(
        url=options.url,
        requests=options.requests,
        threads=options.threads,
        path=options.path,
        key=target.key_for(options),
        seed=options.seed,
    )
    check(order)
    seen = uvloop.run(_load(order))
    sys.stdout.write("".join(f"{line}\n" for line in words(seen, order.threads)))
    return 0 if seen.accepted == seen.requests else 1


def words(seen: Answers, threads: int) -> list[str]:
    """Return the lines that say what came."""
    errors = ", ".join(f"{count} {kind}" for kind, count in seen.errors.items())
    share = 100 * seen.own_cpu_s / seen.seconds if seen.seconds else 0.0
    return [
        LABEL,
        f"{seen.requests} requests over {threads} threads, {seen.accepted} accepted, errors: {errors or 'none'}",
        f"{seen.per_s:.1f} accepted/s in {seen.seconds:.2f} s",
        latency_words("sent to 202", seen.submit),
        f"of a core: generator {share:.0f} %",
    ]


async def _load(order: Closed) -> Answers:
    await target.ask(order.url, order.key)
    sys.stdout.write(f"{machine()}\n")
    sys.stdout.flush()
    try:
        return await ask("loadgen.generator.closed", order, Answers, within_s=WITHIN_S)
    except ConnectionError as error:
        raise OperatorError(str(error)) from error
