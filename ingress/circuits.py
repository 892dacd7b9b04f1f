"""The circuit breakers of an ingress: to Redis, and to RabbitMQ where the queue is there.

On Streams the queue is in the Redis of the records, so what leads there leads to both.
"""

from typing import Final

import msgspec

from inferq.breaker import Limits, State
from inferq.circuit import Circuit
from inferq.heartbeats import BreakerFigures
from inferq.telemetry import Metrics

REDIS: Final = "redis"
BROKER: Final = "broker"


class Breaker(BreakerFigures, kw_only=True):
    """One circuit breaker; ``node`` is the process that has it."""

    node: str


class NodeBreaker(msgspec.Struct, kw_only=True):
    """One circuit breaker in short: a batcher's by its id, an ingress's by its id, a slash and what it leads to."""

    node: str
    state: str
    failures: int
    successes: int


class Overview(msgspec.Struct, kw_only=True):
    """Answer to `GET /stats`: how many batchers live, and all circuit breakers."""

    total_workers: int
    circuit_breakers: list[NodeBreaker]


class Circuits:
    """The ways of an ingress; ``broker`` is None where the queue is in Redis."""

    def __init__(self, limits: Limits, metrics: Metrics, *, broker_apart: bool) -> None:
        self.redis = Circuit(REDIS, limits, metrics)
        self.broker = Circuit(BROKER, limits, metrics) if broker_apart else None

    @property
    def all(self) -> list[Circuit]:
        """All that there are."""
        return [self.redis] if self.broker is None else [self.redis, self.broker]

    @property
    def open(self) -> list[str]:
        """The names of those that let nothing through."""
        return [circuit.name for circuit in self.all if circuit.state is State.OPEN]

    def figures(self) -> list[BreakerFigures]:
        """Return what heartbeats and statistics say of them."""
        return [circuit.figures() for circuit in self.all]

    def tell(self) -> None:
        """Bring their metrics up to date; to be called once a second."""
        for circuit in self.all:
            circuit.tell()
