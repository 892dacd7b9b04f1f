"""Jobs that end while somebody begins to wait for them, as a process of its own.

Each is submitted, and some fraction of a few milliseconds after its 202 it is waited for: by a subscription, by
Server-Sent Events, or by a `GET` that waits. A final state that does not come is missed.

`python -m loadgen.racers` reads a `Race` as JSON from its standard input and writes a `Raced` to its output.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from typing import Final

import msgspec
import uvloop

from inferq.errors import first_line
from loadgen.client import Client
from loadgen.eventstream import followed
from loadgen.muxsocket import MuxSocket, open_mux
from loadgen.pushed import ERROR, Pushed, decode, decode_record

WEBSOCKET: Final = "websocket"
SSE: Final = "sse"
WAIT: Final = "wait"
WAYS: Final = (WEBSOCKET, SSE, WAIT)
SOCKETS: Final = 4
PATIENCE_S: Final = 10.0
WAIT_S: Final = 10
ACCEPTED: Final = 202
OK: Final = 200


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """How often, by which way, and at most how long (ms) after the 202 waiting begins."""

    api: str
    url: str
    way: str
    times: int
    most_ms: float = 3.0
    at_once: int = 16
    seed: int = 5


class Raced(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that had ended by the clock when they were asked for, that ended later, and that were missed."""

    before: int
    after: int
    missed: int
    refused: dict[str, int]


class _Job(msgspec.Struct):
    job_id: str


class _Run:
    def __init__(self, order: Race) -> None:
        self._order = order
        self._drawn = random.Random(order.seed)
        self._left = order.times
        self._before = self._after = self._missed = 0
        self._refused: Counter[str] = Counter()
        self._ends: dict[str, asyncio.Future[Pushed]] = {}
        self._sockets: list[MuxSocket] = []

    async def go(self) -> Raced:
        order = self._order
        client = Client(order.api)
        if order.way == WEBSOCKET:
            self._sockets = [await open_mux(order.url, self._take) for _ in range(SOCKETS)]
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(order.at_once):
                    tasks.create_task(self._race(client))
        finally:
            for socket in self._sockets:
                socket.close()
            await client.close()
        return Raced(before=self._before, after=self._after, missed=self._missed, refused=dict(self._refused))

    async def _race(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        while self._left > 0:
            self._left -= 1
            body = msgspec.json.encode({"text": f"a fine film, number {self._left}"})
            reply = await client.request("POST", "/v1/infer", body)
            if reply.status != ACCEPTED:
                self._refused[str(reply.status)] += 1
                continue
            job_id = msgspec.json.decode(reply.body, type=_Job).job_id
            due_s = loop.time() + self._drawn.uniform(0, self._order.most_ms) / 1000
            # Timers of the loop know whole milliseconds alone.
            while loop.time() < due_s:  # noqa: ASYNC110  # nothing happens then that an event could tell of
                await asyncio.sleep(0)
            asked_s = time.time()
            try:
                async with asyncio.timeout(PATIENCE_S + WAIT_S):
                    frame = await self._waited(client, job_id)
            except (OSError, TimeoutError):
                frame = None
            if frame is None or not frame.final:
                self._missed += 1
            elif frame.age_ms(asked_s) > 0:
                self._before += 1
            else:
                self._after += 1

    async def _waited(self, client: Client, job_id: str) -> Pushed | None:
        """Wait by the way of the run; return the last that was heard of the job."""
        if self._order.way == WEBSOCKET:
            return await self._subscribed(job_id)
        if self._order.way == SSE:
            return await followed(self._order.api, job_id)
        reply = await client.request("GET", f"/v1/jobs/{job_id}?wait={WAIT_S}")
        return Pushed(type="", job=decode_record(reply.body)) if reply.status == OK else None

    async def _subscribed(self, job_id: str) -> Pushed:
        ended: asyncio.Future[Pushed] = asyncio.get_running_loop().create_future()
        self._ends[job_id] = ended
        self._drawn.choice(self._sockets).subscribe([job_id])
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await ended
        finally:
            del self._ends[job_id]

    def _take(self, payload: bytes) -> None:
        frame = decode(payload)
        if frame.type == ERROR:
            self._refused[frame.code] += 1
            return
        ended = self._ends.get(frame.job_id)
        if frame.final and ended is not None and not ended.done():
            ended.set_result(frame)


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when a server is not there."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Race)
    try:
        raced = uvloop.run(_Run(order).go())
    except (OSError, TimeoutError, ExceptionGroup) as error:
        sys.stderr.write(f"race: {first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(raced))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
