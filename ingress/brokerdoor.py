"""The broker as submits meet it: through a circuit breaker, where it is a server of its own.

A full queue is an answer, and so is an alarm. What Redis did not take on the way says nothing of the broker either.
"""

from collections.abc import Sequence

from inferq.broker import Blocked, Broker, TakenBack
from inferq.circuit import Circuit
from inferq.errors import CircuitOpen, HttpError, Unavailable
from inferq.redis import RedisAway
from inferq.steps import Origin
from ingress.admission import Crowded
from ingress.heavy import LIGHT_BYTES, Heavy


class BrokerDoor:
    """Puts jobs into their queues; ``circuit`` is None where the queue is in Redis."""

    def __init__(self, broker: Broker, circuit: Circuit | None) -> None:
        self._broker, self._circuit = broker, circuit
        self._heavy = Heavy()
        self._gone = False

    def require(self) -> None:
        """Refuse a submit before anything of it is begun; raises `CircuitOpen`."""
        if self._circuit is not None:
            try:
                self._circuit.require()
            except CircuitOpen:
                self.look()
                # Its connection may stand again.
                self._circuit.require()

    def look(self) -> None:
        """See whether the broker's connection, which was gone, stands again: that is a sign of life."""
        if not self._broker.ready:
            self._gone = True
        elif self._gone and self._circuit is not None:
            self._gone = False
            self._circuit.sign_of_life()

    async def accept(self, origin: Origin) -> None:
        """Record and enqueue a new job; raises `CircuitOpen`, `Crowded`, and what `Broker.accept` raises."""
        size = len(origin.message)
        if size <= LIGHT_BYTES:
            # The usual case, without what a context costs.
            return await self._accept(origin)
        async with self._heavy.turn(size):
            await self._accept(origin)

    async def _accept(self, origin: Origin) -> None:
        if self._circuit is None:
            await self._broker.accept(origin)
            return
        ticket = self._circuit.enter()
        try:
            await self._broker.accept(origin)
        except BaseException as error:
            self._failed(self._circuit, ticket, [error])
            raise
        self._circuit.succeeded(ticket)

    async def accept_many(self, origins: Sequence[Origin], *, resumed: bool) -> list[HttpError | None]:
        """Record and enqueue new jobs, as `Broker.accept_many` does; for each `CircuitOpen` while nobody is let in, or
        `Crowded`.

        Not raised: others of the same submit may have been answered already, which is not to be lost.
        """
        try:
            async with self._heavy.turn(sum(len(origin.message) for origin in origins)):
                return await self._accept_many(origins, resumed=resumed)
        except Crowded as error:
            return [error] * len(origins)

    async def _accept_many(self, origins: Sequence[Origin], *, resumed: bool) -> list[HttpError | None]:
        if self._circuit is None:
            return await self._broker.accept_many(origins, resumed=resumed)
        try:
            ticket = self._circuit.enter()
        except CircuitOpen as error:
            return [error] * len(origins)
        try:
            answers = await self._broker.accept_many(origins, resumed=resumed)
        except BaseException:
            self._circuit.left(ticket)
            raise
        if None in answers:
            self._circuit.succeeded(ticket)
        else:
            self._failed(self._circuit, ticket, answers)
        return answers

    def _failed(self, circuit: Circuit, ticket: int, errors: Sequence[BaseException | None]) -> None:
        if any(map(_away, errors)):
            circuit.failed(ticket)
            self.look()
        else:
            circuit.left(ticket)


def _away(error: BaseException | None) -> bool:
    """Say whether an error means that the broker was away, or did not confirm in time."""
    return isinstance(error, Unavailable) and not isinstance(
        error, Blocked | CircuitOpen | RedisAway | TakenBack
    )
