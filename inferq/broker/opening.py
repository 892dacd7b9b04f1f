"""Opens a broker that may still be away when a process starts."""

import asyncio

from structlog.typing import FilteringBoundLogger

from inferq.backoff import Backoff
from inferq.broker.base import Broker
from inferq.errors import Unavailable


async def open_when_there(broker: Broker, stopping: asyncio.Event, log: FilteringBoundLogger) -> None:
    """Open the broker, trying until it is there or ``stopping`` is set.

    Raises:
        OperatorError: the broker refuses us, or holds a queue with other arguments.
    """
    backoff = Backoff()
    while not stopping.is_set():
        try:
            await broker.open()
        except Unavailable as error:
            log.warning("broker.away", error=error.detail)
            await asyncio.sleep(backoff.next_s())
        else:
            return
