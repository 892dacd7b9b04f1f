"""The broker as submits meet it: through a circuit breaker, where it is a server of its own.

A full queue is an answer. What Redis did not take on the way says nothing of the broker: it has a breaker of its own.
"""

from collections.abc import Sequence

from inferq.broker import Broker, TakenBack
from inferq.circuit import Circuit
from inferq.errors import HttpError, Unavailable
from inferq.redis import RedisAway
from inferq.steps import Origin


class BrokerDoor:
    """Puts jobs into their queues; ``circuit`` is None where the queue is in Redis."""

    def __init__(self, broker: Broker, circuit: Circuit | None) -> None:
        self._broker, self._circuit = broker, circuit

    def require(self) -> None:
        """Refuse a submit before anything of it is begun; raises `CircuitOpen`."""
        if self._circuit is not None:
            self._circuit.require()

    async def accept(self, origin: Origin) -> None:
        """Record and enqueue a new job; raises `CircuitOpen`, and what `Broker.accept` raises."""
        if self._circuit is None:
            await self._broker.accept(origin)
            return
        ticket = self._circuit.enter()
        try:
            await self._broker.accept(origin)
        except BaseException as error:
            if _away(error):
                self._circuit.failed(ticket)
            else:
                self._circuit.left(ticket)
            raise
        self._circuit.succeeded(ticket)

    async def accept_many(self, origins: Sequence[Origin], *, resumed: bool) -> list[HttpError | None]:
        """Record and enqueue new jobs, as `Broker.accept_many` does; raises `CircuitOpen`."""
        if self._circuit is None:
            return await self._broker.accept_many(origins, resumed=resumed)
        ticket = self._circuit.enter()
        try:
            answers = await self._broker.accept_many(origins, resumed=resumed)
        except BaseException:
            self._circuit.left(ticket)
            raise
        if None in answers:
            self._circuit.succeeded(ticket)
        elif any(map(_away, answers)):
            self._circuit.failed(ticket)
        else:
            self._circuit.left(ticket)
        return answers


def _away(error: BaseException | None) -> bool:
    """Say whether an error means that the broker was away, or did not confirm in time."""
    return isinstance(error, Unavailable) and not isinstance(error, RedisAway | TakenBack)
