"""A notifier by itself, beside no other service: nothing else uses the cores, nothing else moves the records."""

import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq.childprocess import inherited_env
from inferq.ports import LOOPBACK, free_ports
from inferq.servicechild import ServiceChild, service_argv
from inferq.settings import Settings, load, to_environ
from inferq.valkey import EmbeddedValkey
from loadgen.client import Client
from loadgen.deployment import sampled

READY_WITHIN_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class LoneNotifier:
    """Where it is; ``redis_url`` is that of the Redis itself, whatever way the notifier takes to it."""

    settings: Settings
    redis_url: str
    child: ServiceChild

    @property
    def url(self) -> str:
        """The WebSocket server's URL."""
        return f"ws://{LOOPBACK}:{self.child.port}"

    @property
    def pid(self) -> int:
        """Its process id, another one after each restart."""
        assert self.child.pid is not None, "it was started"
        return self.child.pid

    async def metrics(self) -> dict[str, float]:
        """Read what it counts."""
        client = Client(f"http://{LOOPBACK}:{self.child.port}")
        try:
            reply = await client.request("GET", "/metrics")
        finally:
            await client.close()
        return sampled(reply.body.decode())

    async def restart(self) -> None:
        """Kill it with SIGKILL and start it again; returns once it is ready."""
        os.kill(self.pid, signal.SIGKILL)
        await self.child.wait()
        await self.child.start()
        await self.child.ready(READY_WITHIN_S, lambda text: None)


@asynccontextmanager
async def lone_notifier(
    redis_url: str = "", *, through: str = "", **settings: str
) -> AsyncIterator[LoneNotifier]:
    """Run a notifier on a free port, with an embedded Valkey where no Redis is named.

    ``through`` is the URL by which the notifier reaches that Redis, if it is another one.

    Raises:
        OperatorError: one of them does not start.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferq-bench-")))
        if not redis_url:
            valkey = EmbeddedValkey(folder / "valkey")
            stack.push_async_callback(valkey.stop)
            await valkey.start()
            redis_url = valkey.url
        port, *others = free_ports(3)
        ports = {"notifier_port": str(port), "ingress_port": str(others[0]), "batcher_port": str(others[1])}
        wanted, _ = load({}, {"redis_url": through or redis_url, "log_format": "json"} | ports | settings)
        child = ServiceChild(
            "notifier",
            service_argv("notifier"),
            env=inherited_env() | to_environ(wanted),
            host=LOOPBACK,
            port=port,
            record=folder / "notifier.pid",
            on_line=lambda name, line: None,
        )
        stack.push_async_callback(child.stop)
        await child.start()
        await child.ready(READY_WITHIN_S, lambda text: None)
        yield LoneNotifier(settings=wanted, redis_url=redis_url, child=child)
