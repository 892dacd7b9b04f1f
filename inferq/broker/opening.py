"""Opens a broker that may still be away when a process starts."""

import asyncio

from structlog.typing import FilteringBoundLogger

from inferq.backoff import Backoff
from inferq.broker.base import Broker
from inferq.errors import Unavailable
from inferq.sparsely import Sparsely


async def open_when_there(
    broker: Broker, stopping: asyncio.Event, log: FilteringBoundLogger, *, cure: str
) -> None:
    """Open the broker, trying until it is there or ``stopping`` is set; ``cure`` goes into the log lines.

    Raises:
        OperatorError: the broker refuses us, or holds a queue with other arguments.
    """
    backoff, telling, clock_s = Backoff(), Sparsely(), asyncio.get_running_loop().time
    while not stopping.is_set():
        try:
            await broker.open()
        except Unavailable as error:
            if telling.due(clock_s()):
                log.warning("broker.away", error=error.detail, cure=cure, tries=backoff.tries + 1)
            await asyncio.sleep(backoff.next_s())
        else:
            return
