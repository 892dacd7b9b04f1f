"""Clients of two API keys that submit, follow by push and resume whatever breaks, as a process of its own.

Each client watches its own jobs and asks for some of the other key's, which it must be refused. When its connection
ends it connects again, and subscribes to what has not ended with `after`, the `seq` that it saw last.

`python -m loadgen.resumers` takes an `Order` and submits at once. Told `stop`, it submits no more, waits for what is
missing, and says a `Resumed`.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

import msgspec

from inferq.backoff import Backoff
from loadgen.client import Client
from loadgen.companion import Line, converse
from loadgen.muxsocket import MuxSocket, open_mux
from loadgen.pushed import ERROR, SNAPSHOT, decode

ACCEPTED: Final = 202
# Of the other key's jobs every so-manieth is asked for.
STRANGE_EVERY: Final = 10
UNKNOWN: Final = "not_found"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Where, with which keys, and how many jobs a second each client submits."""

    api: str
    url: str
    keys: list[str]
    clients: int
    rate: float
    patience_s: float


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all of them; ``missed`` jobs have no final state, ``wrong`` frames were about another key's job."""

    accepted: int
    refused: dict[str, int]
    finals: int
    missed: int
    repeats: int
    snapshots: int
    wrong: int
    asked: int
    undenied: int
    other_errors: dict[str, int]
    connections: int
    closes: dict[str, int]


class _Job(msgspec.Struct):
    job_id: str


class _Client:
    def __init__(self, order: Order, key: str) -> None:
        self._order, self._key = order, key
        self._api = Client(order.api, key=key)
        self.other: list[_Client] = []
        self._socket: MuxSocket | None = None
        self._news = asyncio.Event()
        # Last `seq` seen of each job that has not ended.
        self.open: dict[str, int] = {}
        self.mine: set[str] = set()
        # Another key's jobs that were asked for, and those of them whose refusal has not come.
        self.strange: set[str] = set()
        self.undenied: dict[str, int] = {}
        self.ended: set[str] = set()
        self.refused: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.closes: Counter[str] = Counter()
        self.repeats = self.snapshots = self.wrong = self.connections = 0

    async def submit(self, stopping: asyncio.Event) -> None:
        """Submit at the rate until it is to stop."""
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), 0
        while not stopping.is_set():
            sent += 1
            body = msgspec.json.encode({"text": f"a fine film, number {sent}"})
            try:
                reply = await self._api.request("POST", "/v1/infer", body)
            except (OSError, TimeoutError) as error:
                self.refused[type(error).__name__] += 1
            else:
                if reply.status == ACCEPTED:
                    self._accepted(msgspec.json.decode(reply.body, type=_Job).job_id)
                else:
                    self.refused[str(reply.status)] += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, begun + sent / self._order.rate - loop.time())):
                    await stopping.wait()

    def _accepted(self, job_id: str) -> None:
        self.mine.add(job_id)
        self.open[job_id] = 0
        self._subscribe({job_id: 0})
        if len(self.mine) % STRANGE_EVERY == 0:
            for other in self.other:
                other.try_strange(job_id)

    def try_strange(self, job_id: str) -> None:
        """Ask for another key's job."""
        self.strange.add(job_id)
        self.undenied[job_id] = 0
        self._subscribe({job_id: 0})

    async def follow(self) -> None:
        """Keep a connection for ever; cancel to end."""
        backoff = Backoff()
        while True:
            try:
                socket = await open_mux(self._order.url, self._take, key=self._key)
            except (OSError, TimeoutError):
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.reset()
            self.connections += 1
            self._socket = socket
            try:
                self._subscribe(self.open | self.undenied)
                self.closes[str(await socket.closed)] += 1
            finally:
                self._socket = None
                socket.abort()

    async def settled(self) -> None:
        """Wait until nothing is missing; once no more is submitted."""
        while self.open or self.undenied:
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        await self._api.close()

    def _subscribe(self, jobs: dict[str, int]) -> None:
        if self._socket is not None and jobs and not self._socket.closed.done():
            self._socket.subscribe(list(jobs), {job_id: seq for job_id, seq in jobs.items() if seq})

    def _take(self, payload: bytes) -> None:
        frame = decode(payload)
        self._news.set()
        if frame.type == ERROR:
            if frame.code == UNKNOWN and frame.job_id in self.strange:
                self.undenied.pop(frame.job_id, None)
            else:
                self.errors[frame.code] += 1
            return
        if frame.job_id not in self.mine:
            self.wrong += 1
            return
        self.snapshots += frame.type == SNAPSHOT
        if frame.job_id in self.ended:
            self.repeats += 1
        elif frame.final:
            self.ended.add(frame.job_id)
            del self.open[frame.job_id]
        else:
            self.open[frame.job_id] = frame.seq


async def resume(order: Order, line: Line) -> None:
    """Submit and follow until told to stop, then wait and say what came."""
    clients = [_Client(order, key) for key in order.keys for _ in range(order.clients)]
    for client in clients:
        client.other = [other for other in clients if other._key != client._key]
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(client.follow()) for client in clients]
        submitting = [tasks.create_task(client.submit(stopping)) for client in clients]
        try:
            await line.told()
            stopping.set()
            await asyncio.wait(submitting)
            with suppress(TimeoutError):
                async with asyncio.timeout(order.patience_s):
                    await asyncio.gather(*(client.settled() for client in clients))
        finally:
            for task in (*following, *submitting):
                task.cancel()
    for client in clients:
        await client.close()

    def total(counts: list[Counter[str]]) -> dict[str, int]:
        return dict(sum(counts, Counter[str]()))

    line.say(
        Resumed(
            accepted=sum(len(client.mine) for client in clients),
            refused=total([client.refused for client in clients]),
            finals=sum(len(client.ended) for client in clients),
            missed=sum(len(client.open) for client in clients),
            repeats=sum(client.repeats for client in clients),
            snapshots=sum(client.snapshots for client in clients),
            wrong=sum(client.wrong for client in clients),
            asked=sum(len(client.strange) for client in clients),
            undenied=sum(len(client.undenied) for client in clients),
            other_errors=total([client.errors for client in clients]),
            connections=sum(client.connections for client in clients),
            closes=total([client.closes for client in clients]),
        )
    )


if __name__ == "__main__":
    raise SystemExit(converse(Order, resume))
