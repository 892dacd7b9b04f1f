"""The one WebSocket of a client: connected while it is needed, restored when it breaks.

What is said and heard on it is its owner's; here is only how it lives.
"""

import asyncio
import time
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException

from inferq.addresses import LOOPBACK
from inferq.backoff import Backoff
from inferq.sdk.fates import Fate, fate_of

# As much as a notifier keeps for a connection. A record with outputs as large as may be is well below it.
MOST_MESSAGE_BYTES: Final = 2 * 1024 * 1024
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 1.0
# A notifier that hangs, or a network that swallows everything, is noticed by their sum.
PING_EVERY_S: Final = 10.0
PING_TIMEOUT_S: Final = 5.0
LATER_S: Final = 30.0
_AGAIN_MOST_S: Final = 5.0
# A connection that lasted so long has proved itself; one that ends at once is tried less and less often.
_PROVED_S: Final = 1.0


class Unreadable(Exception):
    """What came is not of this protocol."""


class Owner(Protocol):
    """Who speaks and listens."""

    async def where(self) -> str:
        """Return the URL to connect to, as soon as there is somebody to connect for."""

    def connected(self) -> None:
        """The socket is up; nothing was said on it."""

    def disconnected(self, fate: Fate, code: int | None) -> None:
        """It is down, or could not be made."""

    def messages(self) -> list[bytes]:
        """Return what is to be said now."""

    def heard(self, message: bytes) -> None:
        """Take a message; raises `Unreadable`."""


class PushLink:
    """Keeps a WebSocket for its owner until it is cancelled, or the API key is refused."""

    def __init__(self, owner: Owner, key: str | None, *, later_s: float = LATER_S) -> None:
        self._owner, self._key, self._later_s = owner, key, later_s
        self._spoken_to = asyncio.Event()

    def wake(self) -> None:
        """Tell it that there is something to say."""
        self._spoken_to.set()

    async def run(self) -> None:
        """Live."""
        backoff = Backoff(first_s=0.05, most_s=_AGAIN_MOST_S)
        later = Backoff(first_s=self._later_s, most_s=self._later_s)
        while True:
            url = await self._owner.where()
            begun_s = time.monotonic()
            fate, code = await self._connection(url)
            self._owner.disconnected(fate, code)
            if fate is Fate.KEY_REFUSED:
                return
            if time.monotonic() - begun_s > _PROVED_S and code is not None:
                backoff.reset()
            await asyncio.sleep((later if fate is Fate.LATER else backoff).next_s())

    async def _connection(self, url: str) -> tuple[Fate, int | None]:
        options: dict[str, Any] = {}
        if self._key is not None:
            options["additional_headers"] = {"Authorization": f"Bearer {self._key}"}
        if urlsplit(url).hostname in LOOPBACK:
            # A proxy of the environment cannot reach this machine's loopback.
            options["proxy"] = None
        try:
            async with connect(
                url,
                compression=None,
                max_size=MOST_MESSAGE_BYTES,
                open_timeout=OPEN_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_interval=PING_EVERY_S,
                ping_timeout=PING_TIMEOUT_S,
                **options,
            ) as socket:
                self._owner.connected()
                return await self._talk(socket)
        except InvalidStatus as error:
            # A proxy says 5xx while the notifier starts again; any other answer will stay the same for a while.
            return (Fate.AGAIN if error.response.status_code >= 500 else Fate.LATER), None
        except InvalidURI:
            return Fate.LATER, None
        except (OSError, TimeoutError, WebSocketException):
            return Fate.AGAIN, None

    async def _talk(self, socket: ClientConnection) -> tuple[Fate, int | None]:
        """Speak and listen until the socket ends."""
        speaking = asyncio.create_task(self._speak(socket), name="inferq-push-speak")
        try:
            while True:
                self._owner.heard(await socket.recv(decode=False))
        except ConnectionClosed:
            return fate_of(socket.close_code), socket.close_code
        except Unreadable:
            return Fate.LATER, None
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _speak(self, socket: ClientConnection) -> None:
        try:
            while True:
                self._spoken_to.clear()
                # Whoever else waits in this turn of the loop is in the same message.
                await asyncio.sleep(0)
                for message in self._owner.messages():
                    await socket.send(message.decode())
                await self._spoken_to.wait()
        except ConnectionClosed:
            return
