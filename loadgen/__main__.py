"""`python -m loadgen`: a steady open-loop load against a running pipeline."""

import argparse
import ipaddress
import sys
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from inferq.cli.credentials import NO_KEY, given_key
from inferq.errors import OperatorError
from loadgen.client import Client
from loadgen.machine import machine
from loadgen.run import run
from loadgen.schedules import constant
from loadgen.texts import unique

DESCRIPTION = "A steady open-loop load against a running pipeline."
MOST_RATE = 100_000.0
MOST_SECONDS = 3_600.0


def main(argv: list[str] | None = None) -> int:
    """Run a load and print what came of it; 1 when a job was refused or not done, 2 when no load was begun."""
    parser = argparse.ArgumentParser(prog="python -m loadgen", description=DESCRIPTION)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the ingress")
    parser.add_argument("--rate", type=float, default=150.0, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long")
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="holds the API key to send (default: INFERQ_API_KEY)"
    )
    parser.add_argument("--allow-remote", action="store_true", help="aim at a host that is not this one")
    options = parser.parse_args(argv)
    if not 0 < options.rate <= MOST_RATE or not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--rate goes up to {MOST_RATE:g}, --seconds up to {MOST_SECONDS:g}")
    if not options.allow_remote and not _loopback(urlsplit(options.url).hostname or ""):
        parser.error("the target is not this host: --allow-remote if it is yours to load")
    count = round(options.rate * options.seconds)
    try:
        key = given_key(options.key_file) or ""
        uvloop.run(_ask(options.url, key))
    except OperatorError as error:
        sys.stderr.write(f"loadgen: {error}\n")
        return 2
    sys.stdout.write(f"{machine()}\n")
    outcome = uvloop.run(run(options.url, constant(options.rate, options.seconds), unique(count), key=key))
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


async def _ask(url: str, key: str) -> None:
    """Make sure that the API is there and takes the key, before minutes of refusals; raises OperatorError."""
    client = Client(url, key=key)
    try:
        reply = await client.request("GET", "/v1/stats")
    except (OSError, TimeoutError) as error:
        raise OperatorError(
            f"no answer from {url} ({type(error).__name__}): start it with `inferq up`, or give its --url"
        ) from error
    finally:
        await client.close()
    if reply.status == 401:
        raise OperatorError(f"{url} asks for {'another' if key else 'an'} API key: {NO_KEY}")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
