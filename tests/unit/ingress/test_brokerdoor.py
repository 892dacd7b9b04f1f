"""The broker behind its circuit breaker, as submits of many jobs meet it."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from inferq.breaker import Limits
from inferq.broker import Broker
from inferq.circuit import Circuit
from inferq.errors import CircuitOpen, HttpError
from inferq.jobs import Job
from inferq.steps import Origin
from inferq.telemetry import Metrics
from ingress.admission import Crowded
from ingress.brokerdoor import BrokerDoor
from ingress.heavy import LIGHT_BYTES, MOST_WAITING_BYTES
from tests.support import turns

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


async def test_a_crowd_of_heavy_messages_is_refused_one_by_one() -> None:
    """Those of few bytes go beside it."""

    class Slow(Taking):
        """A broker that takes all when it is told to."""

        def __init__(self) -> None:
            self.takes = asyncio.Event()

        async def accept_many(
            self, origins: Sequence[Origin], *, resumed: bool = False
        ) -> list[HttpError | None]:
            """Take all."""
            if len(origins[0].message) > LIGHT_BYTES:
                await self.takes.wait()
            return await super().accept_many(origins, resumed=resumed)

    broker = Slow()
    door = BrokerDoor(cast(Broker, cast(Any, broker)), None)
    heavy = [msgspec.structs.replace(origin, message=bytes(MOST_WAITING_BYTES)) for origin in ORIGINS]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(door.accept_many(heavy, resumed=False))
            # In which it begins.
            await turns(1)
        refused = await door.accept_many(heavy, resumed=False)
        assert [type(one) for one in refused] == [Crowded, Crowded]
        assert await door.accept_many(ORIGINS, resumed=False) == [None, None]
        broker.takes.set()
    assert broker.taken == 6
