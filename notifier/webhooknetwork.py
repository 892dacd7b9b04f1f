"""How a webhook reaches its receiver: names are looked up here, every address is judged, and one of these is taken.

What was judged is what is connected to: the address goes to the socket and the name to TLS, so a name server that gives
another answer the next time has nobody to give it to.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial
from ipaddress import ip_address
from typing import Final

import httpcore

from inferq.webhooks.guard import Address, Hosts, literal
from notifier.webhookstream import MeteredStream

CONNECT_S: Final = 3.0
MOST_ADDRESSES: Final = 4
# A lookup may hang for half a minute, three times as long as the try that wants it; the tries of one caller's names,
# half of all that there may be, leave room here for others.
MOST_LOOKUPS: Final = 256

Resolve = Callable[[str, int], Iterable[str]]
"""Returns a name's addresses; blocks, and raises OSError."""


class NotAllowed(Exception):
    """A name has an address that webhooks may not go to."""


class LookupFailed(Exception):
    """A name has no address, or could not be looked up."""


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for a name's addresses."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Lookups:
    """Looks names up, each on a thread of its own, and one name only once at a time.

    The loop's own way has four threads, and a name server that does not answer holds one of them for half a minute: a
    few such names would stop all others. These threads are left alone at the end, as nothing else can end a lookup.
    """

    def __init__(self, resolver: Resolve = resolve) -> None:
        self._resolve = resolver
        self._under_way: dict[tuple[str, int], asyncio.Future[list[Address]]] = {}

    async def find(self, host: str, port: int) -> list[Address]:
        """Return a host's addresses, in the system's order; raises `LookupFailed`."""
        try:
            if (address := literal(host)) is not None:
                return [address]
        except ValueError:
            raise LookupFailed from None
        if (answer := self._under_way.get((host, port))) is None:
            if len(self._under_way) >= MOST_LOOKUPS:
                raise LookupFailed
            answer = self._begin(host, port)
        # Whoever gives up leaves the answer to the others.
        return await asyncio.shield(answer)

    def _begin(self, host: str, port: int) -> asyncio.Future[list[Address]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()
        answer.add_done_callback(_seen)
        self._under_way[host, port] = answer

        def settle(found: list[Address] | None) -> None:
            del self._under_way[host, port]
            if found:
                answer.set_result(found)
            else:
                answer.set_exception(LookupFailed())

        def look() -> None:
            found = None
            try:
                # A scope is no part of an address that others could reach.
                found = [
                    ip_address(one.partition("%")[0]) for one in dict.fromkeys(self._resolve(host, port))
                ]
            except (OSError, ValueError):
                pass
            finally:
                # Whatever happened: a name whose lookup never ended would never be looked up again.
                if not loop.is_closed():
                    loop.call_soon_threadsafe(partial(settle, found))

        try:
            threading.Thread(target=look, name="webhook-lookup", daemon=True).start()
        except RuntimeError:
            # The system has no thread left.
            settle(None)
        return answer


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses alone."""

    def __init__(self, hosts: Hosts, lookups: Lookups) -> None:
        self._hosts, self._lookups = hosts, lookups
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect; raises `NotAllowed`, `LookupFailed` or what httpcore raises."""
        addresses = await self._lookups.find(host, port)
        if not self._hosts.allow(literal(host) or host, port, addresses):
            raise NotAllowed
        failed: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return MeteredStream(
                    await self._network.connect_tcp(
                        str(address), port, timeout=CONNECT_S, socket_options=socket_options
                    )
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        assert failed is not None, "a host has at least one address"
        raise failed

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _seen(answer: asyncio.Future[list[Address]]) -> None:
    """Take note of a failure for which everybody has left already."""
    if not answer.cancelled():
        answer.exception()
