"""A receiver of webhooks that refuses each so many times and then takes it, as a process of its own.

Signatures are checked with the published Standard Webhooks library. `python -m loadgen.hookreceiver` takes a
`Receiver`, listens on a free port and says its URL; told `await` so many webhooks, it says `Taken` once they were taken
or the time is over.
"""

import asyncio
import time
from collections import Counter
from http import HTTPStatus
from typing import Any, Final

import msgspec
from standardwebhooks import Webhook, WebhookVerificationError

from inferq.ports import LOOPBACK
from loadgen.companion import Line, converse
from loadgen.pushed import FINAL, Pushed, decode

LENGTH: Final = "content-length"
MAX_HEAD_BYTES: Final = 64 * 1024


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """The secret, and how often each webhook is refused before it is taken."""

    secret: str
    refusals: int


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """How many webhooks to wait for."""

    webhooks: int
    within_s: float


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What came: webhooks that were taken, and their jobs; tries of each webhook, counted by how many there were.

    ``wrong`` are requests that are no webhook of ours: badly signed, of a job that has not ended, or with another body
    under an id that came before.
    """

    taken: int
    jobs: list[str]
    tries: dict[str, int]
    wrong: int
    last_s: float


class _Receiver:
    def __init__(self, order: Receiver) -> None:
        self._order, self._webhook = order, Webhook(order.secret)
        self._tries: Counter[str] = Counter()
        self._bodies: dict[str, bytes] = {}
        self._taken: dict[str, str] = {}
        self._wrong = 0
        self._begun = self._last_s = time.monotonic()
        self._news = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = [line.partition(":") for line in head.split("\r\n")[1:]]
                fields = {name.strip().lower(): value.strip() for name, _, value in lines}
                body = await reader.readexactly(int(fields.get(LENGTH, "0")))
                status = self._answer(fields, body)
                writer.write(f"HTTP/1.1 {int(status)} {status.phrase}\r\nContent-Length: 0\r\n\r\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The sender is done with it.
        finally:
            writer.close()

    async def taken(self, tell: Tell) -> Taken:
        try:
            async with asyncio.timeout(tell.within_s):
                while len(self._taken) < tell.webhooks:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # What came until then is the answer.
        return Taken(
            taken=len(self._taken),
            jobs=list(self._taken.values()),
            tries={str(tries): count for tries, count in Counter(self._tries.values()).items()},
            wrong=self._wrong,
            last_s=self._last_s - self._begun,
        )

    def _answer(self, fields: dict[str, str], body: bytes) -> HTTPStatus:
        frame = self._verified(fields, body)
        webhook = fields.get("webhook-id", "")
        if frame is None or self._bodies.setdefault(webhook, body) != body:
            self._wrong += 1
            return HTTPStatus.BAD_REQUEST
        self._tries[webhook] += 1
        if self._tries[webhook] <= self._order.refusals:
            return HTTPStatus.SERVICE_UNAVAILABLE
        self._taken[webhook] = frame.job_id
        self._last_s = time.monotonic()
        self._news.set()
        return HTTPStatus.NO_CONTENT

    def _verified(self, fields: dict[str, str], body: bytes) -> Pushed | None:
        try:
            self._webhook.verify(body, fields)
            frame = decode(body)
        except (WebhookVerificationError, msgspec.DecodeError):
            return None
        return frame if frame.type in FINAL else None


async def receive(order: Receiver, line: Line) -> None:
    """Serve, and say what came when told to."""
    receiver = _Receiver(order)
    server = await asyncio.start_server(receiver.serve, LOOPBACK, 0, limit=MAX_HEAD_BYTES)
    async with server:
        line.say(f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/webhooks")
        while True:
            told: Any = await line.told()
            line.say(await receiver.taken(msgspec.convert(told, Tell)))


if __name__ == "__main__":
    raise SystemExit(converse(Receiver, receive))
