"""The client, as the commands use it: connected to a deployment, with errors that say what to do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from inferq.cli.credentials import NO_KEY
from inferq.cli.deployment import Endpoint
from inferq.errors import OperatorError, first_of

if TYPE_CHECKING:
    from inferq import AsyncClient

PATIENCE_S: Final = 60.0


class NoKey(OperatorError):
    """The API asks for a key and got none, or one that it does not know."""


@asynccontextmanager
async def connected(place: Endpoint, *, patience_s: float = PATIENCE_S) -> "AsyncIterator[AsyncClient]":
    """Make a client of a deployment that answers; ``patience_s`` is how long a submit is tried.

    Raises:
        OperatorError: nobody answers there, or the API key is missing or wrong; other errors are the client's.
    """
    # Imported here: commands that call nothing start without it.
    from inferq import AsyncClient, KeyRefused, Unreachable

    try:
        async with AsyncClient(place.url, api_key=place.key, timeout_s=patience_s) as client:
            try:
                await client.check()
            except Unreachable as error:
                cause = type(error.__cause__).__name__
                raise OperatorError(
                    f"no answer from {place.url} ({cause}): start it with `inferq up`, or give its --url,"
                    " or the --state that it was started with"
                ) from error
            yield client
    except (KeyRefused, BaseExceptionGroup) as error:
        first = first_of(error)
        if not isinstance(first, KeyRefused):
            raise
        which = "an API key" if place.key is None else "another API key"
        raise NoKey(f"{place.url} asks for {which}: {NO_KEY}") from error
