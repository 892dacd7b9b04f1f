"""The pipeline as the figures of admission want it: keys on, the queue as good as endless, the batcher frozen."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from inferq.settings import BY_FIELD
from loadgen.deployment import Deployment, deployed

# A batch takes no time: what is frozen need not do anything, and what drains at the end is fast.
MODEL: Final = "simulated:0,0"
ENDLESS_JOBS: Final = "10000000"


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A deployment whose batcher takes nothing, and a key of it, empty where there are none."""

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
async def frozen(broker: str, **settings: str) -> AsyncIterator[Frozen]:
    """Run a pipeline that accepts and does nothing else; ``settings`` go over what is set here.

    Raises:
        OperatorError: it does not start.
    """
    key = secrets.token_hex(16) if "api_keys" in BY_FIELD else ""
    wanted = {"model": MODEL, "queue_limit": ENDLESS_JOBS} | ({"api_keys": f"bench:{key}"} if key else {})
    async with deployed(broker, **(wanted | settings)) as deployment:
        with deployment.frozen("batcher-1"):
            yield Frozen(deployment=deployment, key=key)
