"""What a load is aimed at: whether it may be, is there, and takes the key, before minutes of refusals."""

import argparse
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from inferq.cli.credentials import NO_KEY, given_key
from inferq.errors import OperatorError
from loadgen.client import Client
from loadgen.generator.plan import DEFAULT_URL, loopback

# What a batcher counts and an ingress does not.
BATCHER_METRIC: Final = b"inferq_batch_size_count"
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where a load goes."""
    parser.add_argument("--url", "--target", default=DEFAULT_URL, metavar="URL", help="an ingress")
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="holds the API key to send (default: INFERQ_API_KEY)"
    )
    parser.add_argument("--allow-remote", action="store_true", help="aim at a host that is not this one")


def key_for(options: argparse.Namespace) -> str:
    """Return the API key to send, empty for none; raises `OperatorError` for a target that may not be loaded."""
    try:
        parts = urlsplit(options.url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise OperatorError(f"{options.url} is no URL: give one of the form http://HOST:PORT")
    if not options.allow_remote and not loopback(options.url):
        raise OperatorError("the target is not this host: --allow-remote if it is yours to load")
    return given_key(options.key_file) or ""


async def ask(url: str, key: str) -> None:
    """Make sure that an ingress is there and takes the key.

    Raises:
        OperatorError: it is not, does not, or is a batcher.
    """
    client = Client(url, key=key)
    try:
        reply = await client.request("GET", "/v1/stats")
        if reply.status == UNAUTHORIZED:
            raise OperatorError(f"{url} asks for {'another' if key else 'an'} API key: {NO_KEY}")
        if reply.status == NOT_FOUND:
            exposed = await client.request("GET", "/metrics")
            if BATCHER_METRIC in exposed.body:
                raise OperatorError(
                    f"{url} is a batcher: it takes its jobs from the queue alone, so aim at its ingress"
                )
            raise OperatorError(f"{url} is no ingress: it does not know /v1/stats")
    except (OSError, TimeoutError, UnicodeError) as error:
        raise OperatorError(
            f"no answer from {url} ({type(error).__name__}): start it with `inferq up`, or give its --url"
        ) from error
    finally:
        await client.close()
