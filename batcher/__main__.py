"""`python -m batcher`: a competing consumer that runs the model."""

import asyncio
import socket
from typing import Final

import structlog

from batcher.service import Service
from inferq.errors import OperatorError
from inferq.process import process_id, run
from inferq.server import listen
from inferq.settings import Settings

# Batchers on one host take the next free ports.
PORTS_TRIED: Final = 64

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Run batches until ``stopping``."""
    listener = _listen(settings)
    _log.info("batcher.listening", host=settings.host, port=listener.getsockname()[1])
    await Service(settings, process_id(), stopping).run(listener)


def _listen(settings: Settings) -> socket.socket:
    """Listen on the port of the settings, or on the next free one above it."""
    for port in range(settings.batcher_port, min(settings.batcher_port + PORTS_TRIED, 65536)):
        try:
            return listen(settings.host, port, setting="INFERQ_BATCHER_PORT")
        except OperatorError:
            if port in {settings.batcher_port + PORTS_TRIED - 1, 65535}:
                raise
    raise AssertionError("the last try returns or raises")


if __name__ == "__main__":
    raise SystemExit(run("batcher", "inferq's batcher: forms batches, runs the model, stores results.", main))
