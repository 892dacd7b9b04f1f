"""The HTTP server that ingress and batcher run inside their own event loop, and the answers every server gives."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from inferq import problems
from inferq.errors import OperatorError
from inferq.httpcrowd import Guard
from inferq.httpdeadlines import Sweep, guarded
from inferq.httplimits import HttpLimits
from inferq.telemetry import METRICS_TYPE, Metrics

Checks = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
About = Callable[[], Mapping[str, Any]]
Stuck = Callable[[], str]

# A client that acknowledges nothing of what was sent, or has no room for it, is gone after so long. Left to itself the
# system tries for a quarter of an hour; and what does not fill our buffers no sweep sees.
UNTAKEN_MS: Final = 60_000
STUCK: Final = "stuck"
"""What `/healthz` says of a process in which nothing moves."""
# How often uvicorn looks up from serving.
TICK_S: Final = 0.1


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with hard edges: the process decides when to stop."""

    def __init__(self, config: uvicorn.Config, guard: Guard) -> None:
        super().__init__(config)
        ticks = max(1, round(guard.limits.sweep_s / TICK_S))
        self._sweep = Sweep(self.server_state.connections, ticks=ticks)

    async def on_tick(self, counter: int) -> bool:
        """Keep the connections' deadlines beside what uvicorn does at a tick."""
        self._sweep.tick(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def make_server(
    app: ASGIApp,
    *,
    metrics: Metrics | None = None,
    limits: HttpLimits | None = None,
    graceful_s: float = 5.0,
) -> Server:
    """Make a server for an ASGI application; it listens once it is given a socket.

    Connections, what each may send, idle ones and open requests at the end are bounded; ``metrics`` counts what is
    refused. The peer's address is the connection's: headers that name another one are not believed.
    """
    guard = Guard(limits or HttpLimits(), metrics or Metrics())
    return Server(
        uvicorn.Config(
            app,
            loop="none",
            http=guarded(guard),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(graceful_s),
            proxy_headers=False,
        ),
        guard,
    )


def listen(host: str, port: int, *, setting: str, shared: bool = False) -> socket.socket:
    """Bind and listen; ``shared`` lets processes of this user that ask for it too listen there as well.

    The kernel gives each new connection to one of those that share, by a hash of its addresses.

    Raises:
        OperatorError: the address cannot be had; the text names it, the setting and the cure.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off for sockets that say they are TCP; others wait 40 ms for a delayed ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Those that it accepts inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN_MS)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OperatorError(
            f"cannot listen on {host}:{port} ({error.strerror}): stop what uses it, or set {setting}"
        ) from error
    listener.setblocking(False)
    return listener


def probe_routes(
    metrics: Metrics, checks: Checks, about: About = dict, stuck: Stuck = str
) -> list[BaseRoute]:
    """Return `/healthz`, `/readyz` and `/metrics`; ``checks`` names each part with "ok" or what is wrong.

    ``about`` is what else `/readyz` says: facts that do not make a process unready. ``stuck`` says why the process
    should be started anew, if it should.
    """

    async def healthz(_: Request) -> Response:
        if reason := stuck():
            body = msgspec.json.encode({"status": STUCK, "reason": reason})
            return Response(body, status_code=503, media_type="application/json")
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz(_: Request) -> Response:
        status, body = await readiness(checks, about)
        return Response(body, status_code=status, media_type="application/json")

    shown: list[bytes] = []

    async def exposition(_: Request) -> Response:
        # It costs as much as many calls, so a crowd that asks in one turn of the loop gets one between them.
        if not shown:
            shown.append(metrics.render())
            asyncio.get_running_loop().call_soon(shown.clear)
        return Response(shown[0], media_type=METRICS_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", exposition)]


def probe_app(
    metrics: Metrics,
    checks: Checks,
    about: About = dict,
    stuck: Stuck = str,
    *,
    beside: Sequence[BaseRoute] = (),
) -> Starlette:
    """Make an application that answers the probes, and what is ``beside`` them."""
    app = Starlette(
        routes=[*probe_routes(metrics, checks, about, stuck), *beside],
        exception_handlers={HTTPException: problems.http("docs/operating.md lists what there is")},
    )
    # A path with a slash too many is another path.
    app.router.redirect_slashes = False
    return app


async def readiness(checks: Checks, about: About = dict) -> tuple[int, bytes]:
    """Return status and body of `/readyz`."""
    found = checks()
    results = await found if isinstance(found, Awaitable) else found
    ready = all(value == "ok" for value in results.values())
    status = "ready" if ready else "not_ready"
    body = msgspec.json.encode({"status": status, "checks": dict(results), **about()})
    return (200 if ready else 503), body


async def serve_until(
    server: Server, listener: socket.socket, stopping: asyncio.Event, *, beside: Sequence[socket.socket] = ()
) -> None:
    """Serve, also on the sockets ``beside``, until ``stopping`` is set; then let open requests end, in bounded time."""
    serving = asyncio.create_task(server.serve(sockets=[listener, *beside]), name="http")
    stop = asyncio.create_task(stopping.wait(), name="http-stop")
    try:
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.should_exit = True
        stop.cancel()
        await serving
