"""The pipeline as the figures of admission want it: with a key, and, to accept alone, with a frozen batcher."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from inferq.options import BY_FIELD
from loadgen.deployment import Deployment, deployed

# A batch takes no time: what is frozen need not do anything, and what drains at the end is fast.
MODEL: Final = "simulated:0,0"
ENDLESS_JOBS: Final = "10000000"
KEYS: Final = "api_keys"


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A deployment, and a key of it, empty where there are none."""

    deployment: Deployment
    key: str

    @property
    def url(self) -> str:
        """Where its ingress is."""
        return self.deployment.url

    @property
    def pids(self) -> dict[str, int]:
        """The processes that an accepted job costs something."""
        wanted = ("ingress", "valkey", "rabbitmq")
        return {name: pid for name, pid in self.deployment.pids().items() if name in wanted}


@asynccontextmanager
async def keyed(broker: str, **settings: str) -> AsyncIterator[Keyed]:
    """Run a pipeline that asks for a key; raises `OperatorError` when it does not start."""
    key = secrets.token_hex(16) if KEYS in BY_FIELD else ""
    keys = {KEYS: f"bench:{key}"} if key else {}
    async with deployed(broker, **(keys | settings)) as deployment:
        yield Keyed(deployment=deployment, key=key)


@asynccontextmanager
async def frozen(broker: str) -> AsyncIterator[Keyed]:
    """Run a pipeline that accepts without end and does nothing else; raises as `keyed` does."""
    async with keyed(broker, model=MODEL, queue_limit=ENDLESS_JOBS) as ours:
        with ours.deployment.frozen("batcher-1"):
            yield ours
