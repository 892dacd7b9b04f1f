"""A peer as child processes for as long as it is measured, with the servers that it needs; nothing of it outlives that.

Peers start processes of their own, some of which leave their parent or its group. Each run's processes carry a mark in
their environment, which children inherit: by it what is left at the end is found, and ended by its id.
"""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import psutil

from inferq.childprocess import ChildProcess, inherited_env
from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port
from inferq.rabbitnode import PrivateRabbit
from inferq.valkey import EmbeddedValkey
from loadgen.client import Client
from loadgen.peers.roster import Peer
from loadgen.peers.servers.order import PATH, VARIABLE, Order, encoded

READY_WITHIN_S: Final = 90.0
GRACE_S: Final = 10.0
KILL_WAIT_S: Final = 5.0
POLL_S: Final = 0.1
MARK: Final = "LOADGEN_PEER_RUN"
_PROBE: Final = msgspec.json.encode({"text": "Is it there?"})


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where a peer is, and its processes by name, those of its servers among them."""

    url: str
    pids: Mapping[str, int]


@asynccontextmanager
async def running(peer: Peer, order: Order, *, python: Path) -> AsyncIterator[Running]:
    """Run a peer on a free port with an environment's interpreter; it answers when this is entered.

    Of the order, port and addresses are filled in here.

    Raises:
        OperatorError: it, or a server of it, does not start; with its last line.
    """
    mark = secrets.token_hex(8)
    async with AsyncExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True))
        )
        pids: dict[str, int] = {}
        order = await _served(peer, replace(order, port=free_port()), folder, stack, pids)
        stack.push_async_callback(_swept, peer.name, mark)
        env = (
            inherited_env()
            | dict(peer.env)
            | {
                VARIABLE: encoded(order),
                MARK: mark,
                # Some write into a home, which is not theirs.
                "HOME": str(folder),
                "BENTOML_HOME": str(folder),
                "RAY_TMPDIR": str(folder),
            }
        )
        children = {
            name: ChildProcess(record=folder / f"{name}.pid", output=folder / f"{name}.log")
            for name in peer.programs
        }
        for name, arguments in peer.programs.items():
            argv = [str(python), *(one.format(port=order.port, workers=order.workers) for one in arguments)]
            await children[name].start(argv, env=env, folder=Path.cwd())
            stack.push_async_callback(children[name].stop, GRACE_S)
        url = f"http://{LOOPBACK}:{order.port}"
        await _ready(peer, url, children)
        pids |= {name: child.pid for name, child in children.items() if child.pid is not None}
        yield Running(url=url, pids=pids)


def marked(mark: str) -> Iterator[psutil.Process]:
    """Yield the processes whose environment carries a run's mark."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                yield process


async def _served(
    peer: Peer, order: Order, folder: Path, stack: AsyncExitStack, pids: dict[str, int]
) -> Order:
    """Start the servers that a peer needs; results are in Valkey, messages in RabbitMQ where it is asked for."""
    if not peer.servers:
        return order
    valkey = EmbeddedValkey(folder / "valkey")
    await valkey.start()
    stack.push_async_callback(valkey.stop)
    pids["valkey"] = valkey.pid or 0
    # Messages and results in databases of their own.
    broker_url = valkey.url.removesuffix("/0") + "/1"
    if "rabbitmq" in peer.servers:
        rabbit = PrivateRabbit(folder / "rabbitmq")
        await rabbit.start()
        stack.push_async_callback(rabbit.stop)
        pids["rabbitmq"] = rabbit.pid or 0
        broker_url = rabbit.url
    return replace(order, broker_url=broker_url, results_url=valkey.url)


async def _ready(peer: Peer, url: str, children: Mapping[str, ChildProcess]) -> None:
    """Wait until a request is answered."""
    over_s = time.monotonic() + READY_WITHIN_S
    client = Client(url)
    try:
        while True:
            ended = next((name for name, child in children.items() if not child.running), None)
            if ended is not None or time.monotonic() > over_s:
                words = "; ".join(f"{name}: {child.last_line()}" for name, child in children.items())
                raise OperatorError(f"{peer.title} {'ended' if ended else 'does not answer'}: {words}")
            with suppress(OSError, TimeoutError):
                if (await client.request("POST", PATH, _PROBE)).status == 200:
                    return
            await asyncio.sleep(POLL_S)
    finally:
        await client.close()


async def _swept(name: str, mark: str) -> None:
    """End what a peer has left; raises `OperatorError` when something does not end."""
    over_s = time.monotonic() + KILL_WAIT_S
    while left := [one for one in marked(mark) if one.status() != psutil.STATUS_ZOMBIE]:
        if time.monotonic() > over_s:
            raise OperatorError(f"{name}: processes {', '.join(str(one.pid) for one in left)} do not end")
        for one in left:
            with suppress(psutil.Error):
                one.kill()
        await asyncio.sleep(POLL_S)
