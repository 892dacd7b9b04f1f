"""Requests that their clients break off by resetting the connection, at every point of their way."""

import asyncio
import random
import socket
import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

import msgspec

from loadgen.barrage import INFER_PATH
from loadgen.client import read_reply

# Closing resets the connection, and what was not sent is not sent any more.
_RESET: Final = struct.pack("ii", 1, 0)
# How long a request is left to the server before the reset, at most.
MOST_PAUSE_S: Final = 0.004
PIPELINED: Final = 3
WITHIN_S: Final = 10.0


class Manner(Enum):
    """When a client resets its connection."""

    BEFORE_BODY = "before the body"
    IN_BODY = "in the middle of the body"
    AFTER_BODY = "right after the body"
    IN_ANSWER = "while the answer is on its way"


def request(address: tuple[str, int], text: str) -> tuple[bytes, bytes]:
    """Make head and body of a submit."""
    body = msgspec.json.encode({"text": text})
    head = (
        f"POST {INFER_PATH} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode(), body


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a server's URL."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


async def abort(url: str, manner: Manner, text: str, drawn: random.Random, *, pipelined: bool) -> None:
    """Begin a submit, with ``pipelined`` behind others in the same write, and reset the connection.

    Raises:
        OSError or TimeoutError: there is no connection, or no answer whose middle could be met.
    """
    address = address_of(url)
    head, body = request(address, text)
    before = (head + body) * (PIPELINED - 1) if pipelined else b""
    sent = {
        Manner.BEFORE_BODY: head,
        Manner.IN_BODY: head + body[: drawn.randrange(1, len(body))],
    }.get(manner, head + body)
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        async with asyncio.timeout(WITHIN_S):
            await loop.sock_connect(connection, address)
            await loop.sock_sendall(connection, before + sent)
            if manner is Manner.IN_ANSWER:
                if not await loop.sock_recv(connection, 1):
                    raise ConnectionError("the server closed the connection")
            elif drawn.random() < 0.5:
                await asyncio.sleep(drawn.random() * MOST_PAUSE_S)


async def submit_pipelined(url: str, texts: Sequence[str]) -> list[str]:
    """Submit texts over one connection in one write; return the ids answered, in order.

    Raises:
        ConnectionError: one was not accepted, or not answered.
    """
    address = address_of(url)
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(b"".join(b"".join(request(address, text)) for text in texts))
            ids = []
            for _ in texts:
                reply = await read_reply(reader)
                if reply.status != 202:
                    raise ConnectionError(f"a good submit was answered with {reply.status}")
                ids.append(str(msgspec.json.decode(reply.body)["job_id"]))
            return ids
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def aborted_and_good(
    url: str, *, aborts: int, good: int, at_once: int, seed: int
) -> tuple[dict[str, str], int]:
    """Abort in every manner, submit good ones meanwhile, and as many when all aborts are over.

    Returns what each good submit was answered, ids to texts, and how many aborts met the middle of an answer.
    """
    drawn = random.Random(seed)
    answered: dict[str, str] = {}
    met = 0
    slots = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        nonlocal met
        manner = list(Manner)[number % len(Manner)]
        async with slots:
            await abort(url, manner, f"aborted {number}", drawn, pipelined=drawn.random() < 0.3)
        met += manner is Manner.IN_ANSWER

    async def submit(first: int, count: int) -> None:
        texts = [f"good {number}" for number in range(first, first + count)]
        async with slots:
            ids = await submit_pipelined(url, texts)
        answered.update(zip(ids, texts, strict=True))

    async with asyncio.TaskGroup() as tasks:
        every = max(1, aborts // good)
        for number in range(aborts):
            tasks.create_task(one(number))
            if number % every == 0 and number // every < good:
                tasks.create_task(submit(number // every * PIPELINED, 1 + number % PIPELINED))
    async with asyncio.TaskGroup() as tasks:
        for number in range(good):
            tasks.create_task(submit((good + number) * PIPELINED, 1 + number % PIPELINED))
    return answered, met
