"""`python -m loadgen.baselines.barepush --port P`: what pushing costs when nothing is done beside it.

One redis-py subscription whose messages go to whoever asked for their job, by `websockets`. It speaks as much of `/ws`
as is needed: `subscribe` is noted, and answered with an empty snapshot for each job. No records are read, no caller is
known, nothing is repaired, a client that does not read fills the memory.

`BAREPUSH_REDIS_URL` and `BAREPUSH_CHANNEL` say what to hear, `BAREPUSH_BY` whether each connection's `send` is awaited
(`send`) or `broadcast` is called, which is what the library offers for speed.
"""

import argparse
import os
from typing import Any, Final

import msgspec
import uvloop
from redis.asyncio import Redis
from websockets.asyncio.server import ServerConnection, broadcast, serve

from inferq.ports import LOOPBACK

REDIS_VARIABLE: Final = "BAREPUSH_REDIS_URL"
CHANNEL_VARIABLE: Final = "BAREPUSH_CHANNEL"
BY_VARIABLE: Final = "BAREPUSH_BY"
SEND: Final = "send"
BROADCAST: Final = "broadcast"
MAX_MESSAGE_BYTES: Final = 1024 * 1024


class Asked(msgspec.Struct, frozen=True):
    """A message of a client."""

    action: str
    job_ids: list[str]


class Bare:
    """Who watches what."""

    def __init__(self) -> None:
        self._watched: dict[bytes, set[ServerConnection]] = {}

    async def connection(self, connection: ServerConnection) -> None:
        """Note what a client asks for."""
        asked: list[bytes] = []
        try:
            async for message in connection:
                for job_id in msgspec.json.decode(message, type=Asked).job_ids:
                    self._watched.setdefault(job_id.encode(), set()).add(connection)
                    asked.append(job_id.encode())
                    await connection.send(f'{{"type":"snapshot","job_id":"{job_id}","seq":1,"job":null}}')
        finally:
            for one in asked:
                self._watched.get(one, set()).discard(connection)

    async def follow(self, url: str, channel: str, by: str) -> None:
        """Push what is announced."""
        async with Redis.from_url(url).pubsub() as heard:
            await heard.subscribe(channel)
            message: Any
            async for message in heard.listen():
                if message["type"] != "message":
                    continue
                head, _, record = message["data"].partition(b"\n")
                _, kind, job_id, seq = head.split(b" ")
                if not (connections := self._watched.get(job_id)):
                    continue
                frame = (
                    b'{"type":"'
                    + kind
                    + b'","job_id":"'
                    + job_id
                    + b'","seq":'
                    + seq
                    + b',"job":'
                    + record
                    + b"}"
                )
                if by == BROADCAST:
                    broadcast(connections, frame, text=True)
                else:
                    for connection in tuple(connections):
                        await connection.send(frame, text=True)


async def run(port: int) -> None:
    """Serve until ended."""
    bare = Bare()
    async with serve(bare.connection, LOOPBACK, port, compression=None, max_size=MAX_MESSAGE_BYTES):
        await bare.follow(
            os.environ[REDIS_VARIABLE], os.environ[CHANNEL_VARIABLE], os.environ.get(BY_VARIABLE, BROADCAST)
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m loadgen.baselines.barepush", description="a bare push loop"
    )
    parser.add_argument("--port", type=int, required=True, help="where to listen, on loopback")
    uvloop.run(run(parser.parse_args().port))
