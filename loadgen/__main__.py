"""`python -m loadgen`: a steady open-loop load against a running pipeline."""

import argparse
import ipaddress
import sys
from urllib.parse import urlsplit

import uvloop

from loadgen.machine import machine
from loadgen.pacer import constant
from loadgen.run import run
from loadgen.texts import unique

MOST_RATE = 100_000.0
MOST_SECONDS = 3_600.0


def main(argv: list[str] | None = None) -> int:
    """Run a load and print what came of it; 1 when a job was refused or did not end as done."""
    parser = argparse.ArgumentParser(prog="python -m loadgen", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the ingress")
    parser.add_argument("--rate", type=float, default=150.0, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long")
    parser.add_argument("--allow-remote", action="store_true", help="aim at a host that is not this one")
    options = parser.parse_args(argv)
    if not 0 < options.rate <= MOST_RATE or not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--rate goes up to {MOST_RATE:g}, --seconds up to {MOST_SECONDS:g}")
    if not options.allow_remote and not _loopback(urlsplit(options.url).hostname or ""):
        parser.error("the target is not this host: --allow-remote if it is yours to load")
    count = round(options.rate * options.seconds)
    sys.stdout.write(f"{machine()}\n")
    outcome = uvloop.run(run(options.url, constant(options.rate, options.seconds), unique(count)))
    sys.stdout.write(
        "\n".join(
            [
                f"{count} jobs at {options.rate:g}/s: {outcome.done} done, refused {dict(outcome.refused) or 0}",
                outcome.line("submit to 202", outcome.submit),
                outcome.line("submit to push", outcome.pushed),
                outcome.line("generator's own lag", outcome.lags),
                f"last result {outcome.last_after_s:.2f} s after the last send",
            ]
        )
        + "\n"
    )
    return 0 if outcome.done == count else 1


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
