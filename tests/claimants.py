"""Requests under an idempotency key, and work for them that a test holds up, lets through or breaks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from inferq.redis import connect
from inferq.telemetry import Metrics
from ingress.idemkey import digest
from ingress.idempotency import OUTCOMES, Done, Idempotency
from tests.deployment import Deployment
from tests.support import eventually

PATH: Final = "/v1/infer"
BODY: Final = b'{"text":"I loved it"}'
OTHER: Final = b'{"text":"I hated it"}'
KEY: Final = b"key-1"
# As an answer that is not there yet: longer than any test waits for one.
FOR_EVER_S: Final = 30.0


@dataclass(kw_only=True)
class Work:
    """Stands for a submit: notes what it was called with, and answers with the seed once its gate is open."""

    error: BaseException | None = None
    calls: list[tuple[str, bool]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    open: bool = True

    async def __call__(self, seed: str, resumed: bool) -> Done:
        """Submit."""
        self.calls.append((seed, resumed))
        if not self.open:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return answer(seed)

    def let_through(self) -> None:
        """Let every call go on."""
        self.gate.set()

    @property
    def seed(self) -> str:
        """The seed of the one call."""
        ((seed, _),) = self.calls
        return seed

    @property
    def resumed(self) -> list[bool]:
        """Of each call, whether another may have begun with its seed."""
        return [resumed for _, resumed in self.calls]

    async def begins(self, times: int = 1) -> None:
        """Wait until it was called so many times."""
        await eventually(lambda: len(self.calls) >= times, every_s=0.002, what="the work's begin")


def held() -> Work:
    """Work that waits at its gate."""
    return Work(open=False)


def answer(seed: str, *, replayed: bool = False) -> Done:
    """What work answers with a seed."""
    return Done(answer=f'{{"job_id":"{seed}"}}'.encode(), location=f"/v1/jobs/{seed}", replayed=replayed)


class Ingress:
    """What one process has for idempotency keys: a connection, metrics and the thing itself."""

    def __init__(self, deployment: Deployment, *, url: str = "", ttl_s: int = 600, **options: float) -> None:
        # The client's own patience ends nothing here: what is bounded is bounded by what is tested.
        self.redis = connect(url or deployment.redis_url, reply_timeout_s=FOR_EVER_S)
        self.metrics = Metrics()
        self.idempotency = Idempotency(
            self.redis, deployment.names, self.metrics, ttl_s=ttl_s, **{"wait_s": FOR_EVER_S} | options
        )

    async def once(
        self, work: Work, *, key: bytes = KEY, body: bytes = BODY, scope: str = "", path: str = PATH
    ) -> Done:
        """Answer a request."""
        return await self.idempotency.once(scope=scope, path=path, key=key, body=body, work=work)

    def start(self, work: Work, **options: Any) -> asyncio.Task[Done]:
        """Begin to answer a request."""
        return asyncio.create_task(self.once(work, **options))

    @property
    def outcomes(self) -> dict[str, int]:
        """How many requests had each outcome, without those that none had."""
        counts = {
            outcome: self.metrics.registry.get_sample_value("inferq_idempotent_total", {"outcome": outcome})
            for outcome in OUTCOMES
        }
        return {outcome: int(count) for outcome, count in counts.items() if count}

    @property
    def waiting(self) -> int:
        """How many requests wait for another's outcome."""
        return int(self.metrics.registry.get_sample_value("inferq_idempotent_waiting") or 0)

    async def waits(self, requests: int = 1) -> None:
        """Wait until so many requests wait."""
        await eventually(lambda: self.waiting == requests, every_s=0.002, what=f"{requests} who wait")

    async def die(self, request: asyncio.Task[Done]) -> None:
        """Go as a killed process does: no more command comes out of it."""
        await self.redis.aclose()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)


Ingresses = Callable[..., Ingress]


@asynccontextmanager
async def ingresses(deployment: Deployment) -> AsyncIterator[Ingresses]:
    """Lend a maker of ingresses; their connections end with the test."""
    made: list[Ingress] = []

    def make(**options: Any) -> Ingress:
        made.append(Ingress(deployment, **options))
        return made[-1]

    try:
        yield make
    finally:
        for ingress in made:
            await ingress.redis.aclose()


def place(deployment: Deployment, *, key: bytes = KEY, scope: str = "", path: str = PATH) -> str:
    """Name the Redis key of an idempotency key."""
    return deployment.names.idem(digest(scope=scope, path=path, key=key))


async def age(deployment: Deployment) -> None:
    """Make the claim as old as one that was left long ago."""
    assert await deployment.redis.hset(place(deployment), "at_ms", "1000000000000") == 0, "there is a claim"
