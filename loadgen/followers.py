"""Submits on schedule and follows each job over a few `/ws` connections, as a process of its own.

A job is subscribed to once its 202 is here, as clients do. What is noted of each is how old its result was when the
frame was read; this process may go before others (`PRIORITY`), as a client elsewhere would, since a frame that waits
for it here would count as late.

`python -m loadgen.followers` reads a `Follow` as JSON from its standard input and writes a `Followed` to its output.
"""

import asyncio
import gc
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import cycle
from typing import Final

import msgspec
import uvloop

from inferq.errors import first_line
from loadgen.client import Client
from loadgen.figures import percentile
from loadgen.muxsocket import MuxSocket, open_mux
from loadgen.pushed import ERROR, SNAPSHOT, decode
from loadgen.schedules import constant
from loadgen.texts import unique

PATIENCE_S: Final = 20.0
PRIORITY: Final = -10
ACCEPTED: Final = 202


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """What to submit, so many a second, and over how many connections to follow it."""

    api: str
    url: str
    rate: float
    seconds: float
    sockets: int = 4
    key: str = ""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the age (ms) of each result that was pushed as it was stored.

    ``early`` counts the jobs that had ended before they were subscribed to, ``missed`` those of which no final state
    came; ``lag_p99_ms`` is by how much submits were late.
    """

    accepted: int
    refused: dict[str, int]
    ages_ms: list[float]
    early: int
    missed: int
    errors: int
    lag_p99_ms: float
    own_cpu_s: float


class _Job(msgspec.Struct):
    job_id: str


class _Run:
    def __init__(self, order: Follow) -> None:
        self._order = order
        self._open: set[str] = set()
        self._refused: Counter[str] = Counter()
        self._ages_ms: list[float] = []
        self._lags_ms: list[float] = []
        self._accepted = self._early = self._errors = 0
        self._news = asyncio.Event()

    async def go(self) -> Followed:
        order, loop = self._order, asyncio.get_running_loop()
        client = Client(order.api, key=order.key)
        sockets = [await open_mux(order.url, self._take, key=order.key) for _ in range(order.sockets)]
        texts = list(unique(round(order.rate * order.seconds)))
        own_s, start = time.process_time(), loop.time() + 0.2
        try:
            async with asyncio.TaskGroup() as tasks:
                due_s = constant(order.rate, order.seconds)
                for due, text, socket in zip(due_s, texts, cycle(sockets), strict=False):
                    if (early_s := start + due - loop.time()) > 0:
                        await asyncio.sleep(early_s)
                    self._lags_ms.append(max(0.0, loop.time() - start - due) * 1000)
                    tasks.create_task(self._job(client, text, socket))
            own_s = time.process_time() - own_s
            await self._ended()
        finally:
            for socket in sockets:
                socket.close()
            await client.close()
        return Followed(
            accepted=self._accepted,
            refused=dict(self._refused),
            ages_ms=self._ages_ms,
            early=self._early,
            missed=len(self._open),
            errors=self._errors,
            lag_p99_ms=percentile(sorted(self._lags_ms), 0.99),
            own_cpu_s=own_s,
        )

    async def _job(self, client: Client, text: str, socket: MuxSocket) -> None:
        try:
            reply = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
        except (OSError, TimeoutError) as error:
            self._refused[type(error).__name__] += 1
            return
        if reply.status != ACCEPTED:
            self._refused[str(reply.status)] += 1
            return
        self._accepted += 1
        job_id = msgspec.json.decode(reply.body, type=_Job).job_id
        self._open.add(job_id)
        socket.subscribe([job_id])

    async def _ended(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self._open:
                    self._news.clear()
                    await self._news.wait()

    def _take(self, payload: bytes) -> None:
        now_s = time.time()
        frame = decode(payload)
        if frame.type == ERROR:
            self._errors += 1
        elif frame.final and frame.job_id in self._open:
            self._open.discard(frame.job_id)
            if frame.type == SNAPSHOT:
                self._early += 1
            else:
                self._ages_ms.append(frame.age_ms(now_s))
            self._news.set()


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when a server is not there."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Follow)
    # A collection would make frames late that have come.
    gc.disable()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    try:
        followed = uvloop.run(_Run(order).go())
    except (OSError, TimeoutError) as error:
        sys.stderr.write(f"followers: {first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(followed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
