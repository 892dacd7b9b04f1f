"""What a sweep loads: a pipeline of its own, or one that runs already."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from inferq.settings import Settings
from loadgen.client import Client
from loadgen.deployment import deployed
from loadgen.fitted import Fitted
from loadgen.generator.target import ask
from loadgen.reports.arms import arm
from loadgen.reports.environment import model_name
from loadgen.simulated import fitted_of
from loadgen.sweeping.swept import Server

POLL_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Target:
    """A running pipeline; ``settings`` and what its first batcher logged as ``warm`` are known of one of our own."""

    url: str
    server: Server
    key: str = field(default="", repr=False)
    settings: Settings | None = None
    warm: Mapping[str, Any] = field(default_factory=dict)

    def fitted(self) -> Fitted:
        """Return what the batcher fitted; raises `ValueError` where that is not known, with why."""
        if self.settings is None:
            raise ValueError("what the batchers of a pipeline that runs already have fitted is not known")
        return fitted_of(self.settings, self.warm)

    async def stats(self) -> dict[str, Any]:
        """Return `/v1/stats`; raises OSError or TimeoutError when there is no answer."""
        client = Client(self.url, key=self.key)
        try:
            reply = await client.request("GET", "/v1/stats")
        finally:
            await client.close()
        if reply.status != 200:
            raise ConnectionError(f"{self.url}/v1/stats answered {reply.status}")
        return dict(msgspec.json.decode(reply.body))

    async def drained(self, *, within_s: float) -> bool:
        """Wait until no job waits in the queue; return False when the time is over before."""
        over_s = time.monotonic() + within_s
        while (await self.stats())["queue"]["depth"]:
            if time.monotonic() > over_s:
                return False
            await asyncio.sleep(POLL_S)
        return True


@dataclass(frozen=True, kw_only=True)
class Own:
    """The pipeline to start: a broker (streams or rabbitmq), a model, a configuration, and how many batchers."""

    broker: str = "streams"
    model: str = "builtin"
    precision: str = "fp32"
    config: str = "slo"
    batchers: int = 1
    cache: str = "off"


@asynccontextmanager
async def own(wanted: Own, **settings: str) -> AsyncIterator[Target]:
    """Run a pipeline; it ends with the block, however that ends. Raises `OperatorError` when it does not start."""
    given = {
        "model": wanted.model,
        "precision": wanted.precision,
        "batchers": str(wanted.batchers),
        "cache": wanted.cache,
        **arm(wanted.config).changes,
        **settings,
    }
    async with deployed(wanted.broker, **given) as deployment:
        used = deployment.settings
        try:
            lanes = fitted_of(used, deployment.warm).lanes
        except ValueError:
            lanes = None
        yield Target(
            url=deployment.url,
            server=Server(
                url=deployment.url,
                broker=wanted.broker,
                model=model_name(used.model),
                precision=used.precision,
                config=wanted.config,
                batchers=used.batchers,
                most_rows=used.max_batch_size,
                lanes=lanes,
            ),
            settings=used,
            warm=deployment.warm,
        )


async def running(url: str, *, key: str) -> Target:
    """Return a pipeline that runs already; raises `OperatorError` when it is not there or wants another key."""
    await ask(url, key)
    target = Target(url=url, key=key, server=Server(url=url))
    batchers = len((await target.stats()).get("batchers", ()))
    return replace(target, server=msgspec.structs.replace(target.server, batchers=batchers or None))
