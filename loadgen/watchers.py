"""Sockets that watch jobs which others run, as a process of its own; a conversation says when what is done.

`python -m loadgen.watchers` takes a `Watch`, opens its sockets and says a `Count`. Told to `subscribe`, it says a
`Count` once every job is known; told to `await` so many final states, once they are there or the time is over; told
`ages`, how old each result was when it came, in milliseconds.
"""

import asyncio
import time
from collections import Counter
from typing import Any, Final

import msgspec

from loadgen.companion import Line, converse
from loadgen.muxsocket import MuxSocket, open_mux
from loadgen.pushed import ERROR, SNAPSHOT, decode

OPEN_AT_ONCE: Final = 64


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch: each job on one of so many sockets, or on each of them (``shared``)."""

    url: str
    sockets: int
    jobs: list[str] = []
    shared: bool = False
    key: str = ""


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next."""

    do: str
    finals: int = 0
    within_s: float = 60.0


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Frames so far by kind, final states once each, ends of sockets by code."""

    open: int
    snapshots: int
    events: int
    finals: int
    repeats: int
    errors: dict[str, int]
    closes: dict[str, int]


class _Watchers:
    def __init__(self, order: Watch) -> None:
        self._order = order
        self._sockets: list[MuxSocket] = []
        self._known: set[tuple[int, str]] = set()
        self._ended: set[tuple[int, str]] = set()
        self._snapshots = self._events = self._repeats = 0
        self._errors: Counter[str] = Counter()
        self._ages_ms: list[float] = []
        self._news = asyncio.Event()

    async def open(self) -> None:
        slots = asyncio.Semaphore(OPEN_AT_ONCE)

        async def one(number: int) -> MuxSocket:
            async with slots:
                return await open_mux(
                    self._order.url, lambda payload: self._take(number, payload), key=self._order.key
                )

        async with asyncio.TaskGroup() as tasks:
            opening = [tasks.create_task(one(number)) for number in range(self._order.sockets)]
        self._sockets = [task.result() for task in opening]

    async def carry_out(self, tell: Tell, line: Line) -> None:
        if tell.do == "ages":
            line.say(self._ages_ms)
            return
        if tell.do == "subscribe":
            for number, socket in enumerate(self._sockets):
                jobs = self._order.jobs
                socket.subscribe(jobs if self._order.shared else jobs[number :: len(self._sockets)])
        try:
            async with asyncio.timeout(tell.within_s):
                while not self._there(tell):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # What came until then is the answer.
        line.say(self.count())

    def _there(self, tell: Tell) -> bool:
        if tell.do == "subscribe":
            each = self._order.sockets if self._order.shared else 1
            return len(self._known) >= each * len(self._order.jobs)
        return len(self._ended) >= tell.finals

    def _take(self, number: int, payload: bytes) -> None:
        now_s = time.time()
        frame = decode(payload)
        if frame.type == ERROR:
            self._errors[frame.code] += 1
            return
        one = (number, frame.job_id)
        if frame.type == SNAPSHOT:
            self._snapshots += 1
            self._known.add(one)
        else:
            self._events += 1
        if frame.final:
            if one in self._ended:
                self._repeats += 1
            elif frame.type != SNAPSHOT:
                self._ages_ms.append(frame.age_ms(now_s))
            self._ended.add(one)
        self._news.set()

    def count(self) -> Count:
        closed = [socket.closed.result() for socket in self._sockets if socket.closed.done()]
        return Count(
            open=len(self._sockets) - len(closed),
            snapshots=self._snapshots,
            events=self._events,
            finals=len(self._ended),
            repeats=self._repeats,
            errors=dict(self._errors),
            closes={str(code): count for code, count in Counter(closed).items()},
        )


async def watch(order: Watch, line: Line) -> None:
    """Open the sockets, then do what is told."""
    watchers = _Watchers(order)
    await watchers.open()
    line.say(watchers.count())
    while True:
        told: Any = await line.told()
        await watchers.carry_out(msgspec.convert(told, Tell), line)


if __name__ == "__main__":
    raise SystemExit(converse(Watch, watch))
