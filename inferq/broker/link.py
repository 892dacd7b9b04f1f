"""One AMQP connection that comes back by itself.

aio-pika's robust connection restores what it remembers; here the whole set-up is run anew after each loss instead, so
that what vanished on the broker is declared again and there is one path to a working state, the one from nothing. Any
closed channel counts as a lost connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    InvalidFrameError,
    ProbableAuthenticationError,
)

from inferq.awaycures import BROKER_AWAY
from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.errors import OperatorError, Unavailable
from inferq.redaction import redact
from inferq.sparsely import Sparsely

CONNECT_TIMEOUT_S: Final = 5.0
# A broker that froze without closing is noticed after about twice this.
HEARTBEAT_S: Final = 10
CLOSE_TIMEOUT_S: Final = 2.0

_log = structlog.get_logger(__name__)

Setup = Callable[["Link", AbstractConnection], Awaitable[None]]


class Link:
    """A connection, its set-up, and the task that restores both.

    ``setup_s`` is how long the set-up may take. ``epoch`` counts connections: what was received over an earlier one
    cannot be settled over this one.
    """

    def __init__(
        self,
        url: str,
        *,
        purpose: str,
        setup: Setup,
        connection_class: type[aio_pika.Connection] = aio_pika.Connection,
        setup_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._url, self._purpose, self._setup = url, purpose, setup
        self._connection_class, self._setup_s = connection_class, setup_s
        self._connection: AbstractConnection | None = None
        self._lost = asyncio.Event()
        self._set_up = False
        self._task: asyncio.Task[None] | None = None
        self.epoch = 0

    @property
    def connected(self) -> bool:
        """Whether the connection stands, be its set-up done or not."""
        return self._connection is not None and not self._lost.is_set()

    @property
    def ready(self) -> bool:
        """Whether the connection stands and its set-up is done."""
        return self._set_up and self.connected

    @property
    def connection(self) -> AbstractConnection:
        """The connection; raises `Unavailable` when there is none now."""
        if self._connection is None or self._lost.is_set():
            raise Unavailable("the broker is away")
        return self._connection

    async def open(self) -> None:
        """Connect for the first time, then keep it so.

        Raises:
            OperatorError: the broker refuses us, or holds something that was declared otherwise.
            Unavailable: it is away.
        """
        await self._connect()
        self._task = spawn(self._keep(), f"amqp-{self._purpose}")

    async def close(self) -> None:
        """Disconnect for good."""
        await end(self._task)
        await self._drop()

    def fail(self) -> None:
        """Give this connection up; a new one will be made."""
        self._lost.set()

    async def channel(self, **options: Any) -> AbstractChannel:
        """Open a channel whose end is the connection's end."""
        # Of this connection alone: a channel may learn of its end when the next connection stands already.
        lost = self._lost
        channel = await self.connection.channel(**options)
        channel.close_callbacks.add(lambda *_: lost.set())
        return channel

    async def _connect(self) -> None:
        self._lost = lost = asyncio.Event()
        try:
            self._connection = await aio_pika.connect(
                self._url,
                timeout=CONNECT_TIMEOUT_S,
                heartbeat=HEARTBEAT_S,
                client_properties={"connection_name": f"inferq {self._purpose}"},
                connection_class=self._connection_class,
            )
            self._connection.close_callbacks.add(lambda *_: lost.set())
            self.epoch += 1
            async with asyncio.timeout(self._setup_s):
                await self._setup(self, self._connection)
            self._set_up = True
        except (AuthenticationError, ProbableAuthenticationError) as error:
            await self._drop()
            raise OperatorError(
                f"the broker {redact(self._url)} refuses this user or virtual host: correct INFERQ_BROKER_URL"
            ) from error
        except OperatorError:
            await self._drop()
            raise
        except InvalidFrameError as error:
            # What aiormq makes of a refused virtual host; a node that is still starting refuses it too.
            await self._drop()
            raise Unavailable(
                f"the broker {redact(self._url)} does not open this virtual host: correct INFERQ_BROKER_URL"
                " unless it is starting"
            ) from error
        except (AMQPError, OSError, EOFError, TimeoutError, RuntimeError) as error:
            await self._drop()
            raise Unavailable(f"the broker {redact(self._url)} is away: {type(error).__name__}") from error

    async def _keep(self) -> None:
        backoff, telling, clock_s = Backoff(), Sparsely(), asyncio.get_running_loop().time
        while True:
            await self._lost.wait()
            _log.warning("broker.connection_lost", purpose=self._purpose)
            await self._drop()
            while True:
                await asyncio.sleep(backoff.next_s())
                try:
                    await self._connect()
                except (OperatorError, Unavailable) as error:
                    if telling.due(clock_s()):
                        _log.warning(
                            "broker.reconnect_failed",
                            purpose=self._purpose,
                            error=str(error),
                            cure=BROKER_AWAY,
                        )
                else:
                    _log.info("broker.reconnected", purpose=self._purpose)
                    backoff.reset()
                    telling.reset()
                    break

    async def _drop(self) -> None:
        self._set_up = False
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed:
            with suppress(AMQPError, OSError, TimeoutError, RuntimeError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await connection.close()
