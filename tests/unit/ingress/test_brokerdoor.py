"""The broker behind its circuit breaker, as submits of many jobs meet it."""

from collections.abc import Sequence
from typing import Any, cast

from inferq.breaker import Limits
from inferq.broker import Broker
from inferq.circuit import Circuit
from inferq.errors import CircuitOpen, HttpError
from inferq.jobs import Job
from inferq.steps import Origin
from inferq.telemetry import Metrics
from ingress.brokerdoor import BrokerDoor

ORIGINS = [
    Origin(job=Job(job_id=name, model="m", created_ms=0), queue="q", message=b"") for name in ("a", "b")
]


class Taking:
    """A broker that takes whatever comes."""

    ready = True
    taken = 0

    async def accept_many(
        self, origins: Sequence[Origin], *, resumed: bool = False
    ) -> list[HttpError | None]:
        """Take all."""
        self.taken += len(origins)
        return [None] * len(origins)


async def test_who_is_not_let_in_is_refused_one_by_one() -> None:
    """While others try a half-open way each job has its refusal: a batch keeps what needed no broker."""
    now_s = 0.0
    circuit = Circuit("broker", Limits(failures=1, open_ms=1000, probes=1), Metrics(), clock=lambda: now_s)
    broker = Taking()
    door = BrokerDoor(cast(Broker, cast(Any, broker)), circuit)
    circuit.failed(circuit.enter())
    now_s = 1.0
    probe = circuit.enter()
    refused = await door.accept_many(ORIGINS, resumed=False)
    assert [type(one) for one in refused] == [CircuitOpen, CircuitOpen]
    assert broker.taken == 0
    circuit.succeeded(probe)
    assert await door.accept_many(ORIGINS, resumed=False) == [None, None]
