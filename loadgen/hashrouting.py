"""Hash routing: three batchers, ten distinct inputs, tens of thousands of requests; then one batcher is killed.

Each distinct result is to be computed once and kept once in the whole deployment, no input at two batchers; of a killed
batcher the share alone moves, and nothing that was accepted is lost. The split is printed as a table.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from loadgen.barrage import fates
from loadgen.client import Client
from loadgen.deployment import POLL_S, Deployment, deployed
from loadgen.figures import Figure, equal

BATCHERS: Final = 3
SHARDS: Final = 64
INPUTS: Final = 10
MODEL: Final = "simulated:2,0.2"
BATCH_PATH: Final = "/v1/infer/batch"
AT_ONCE: Final = 100
CONNECTIONS: Final = 8
WITHIN_S: Final = 240.0
RETRY_S: Final = 0.1
# Heartbeats come once a second, and leases end after five.
SETTLED_WITHIN_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """One batcher's part: its shards, and what its cache keeps and found."""

    shards: frozenset[int]
    kept: int
    hits: int
    misses: int
    hit_us: float | None


@dataclass(frozen=True, kw_only=True)
class Found:
    """What came of a run; ``computed`` counts the rows that were run before the kill.

    ``strayed`` counts shards of survivors that moved, ``moved`` those of the killed one that did.
    """

    requests: int
    seconds: float
    computed: int
    before: Mapping[str, Split]
    after: Mapping[str, Split]
    strayed: int
    moved: int
    lost: int

    @property
    def kept(self) -> int:
        """Results that all caches kept before the kill."""
        return sum(one.kept for one in self.before.values())


async def measured(broker: str, *, requests: int, say: Callable[[str], None]) -> Found:
    """Send requests to a fresh pipeline, half of them again, in the middle of which one of its batchers is killed.

    Raises:
        TimeoutError: it does not get through them in time.
    """
    async with deployed(
        broker,
        routing="hash",
        shards=str(SHARDS),
        batchers=str(BATCHERS),
        cache="local",
        model=MODEL,
        queue_limit=str(2 * requests),
    ) as deployment:
        await _shared(deployment)
        begun = time.monotonic()
        jobs = await _submitted(deployment.url, requests)
        await deployment.ended(requests, within_s=WITHIN_S)
        seconds = time.monotonic() - begun
        await _holds(partial(_counted, deployment, requests), SETTLED_WITHIN_S)
        before = split(await deployment.stats())
        computed = _rows(await deployment.stats())
        say(table(f"{broker}, {requests} requests of {INPUTS} inputs", before))

        half_way = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(_submitted(deployment.url, requests // 2, half_way))
            # With jobs in its hands.
            await half_way.wait()
            os.kill(deployment.pid("batcher-1"), signal.SIGKILL)
        jobs += sending.result()
        ended = await fates(deployment.url, jobs, within_s=WITHIN_S)
        after = await _shared(deployment, but=before)
        say(table(f"{broker}, after one was killed and replaced", after))
    survivors = before.keys() & after.keys()
    dead = [one.shards for name, one in before.items() if name not in survivors]
    return Found(
        requests=requests,
        seconds=seconds,
        computed=computed,
        before=before,
        after=after,
        strayed=sum(len(before[name].shards - after[name].shards) for name in survivors),
        moved=sum(map(len, dead)),
        lost=len(jobs) - ended["done"],
    )


def judged(broker: str, found: Found) -> list[Figure]:
    """Return the figures of a run."""
    where = f"hash routing, {broker}"
    hits = sum(one.hits for one in found.before.values())
    return [
        Figure(name=f"{where}, {INPUTS} inputs", value=found.requests / found.seconds, unit="requests/s"),
        equal(f"{where}, rows computed", found.computed, INPUTS, "rows"),
        equal(f"{where}, results kept in all caches", found.kept, INPUTS, "results"),
        Figure(name=f"{where}, found in a cache", value=100 * hits / found.requests, unit="%"),
        equal(f"{where}, survivors' shards that moved when one was killed", found.strayed, 0, "shards"),
        Figure(name=f"{where}, shards of the killed one", value=found.moved, unit="shards"),
        equal(f"{where}, accepted and not done", found.lost, 0, "jobs"),
    ]


def split(stats: Mapping[str, Any]) -> dict[str, Split]:
    """Read each batcher's part out of `/v1/stats`."""
    return {
        entry["id"]: Split(
            shards=frozenset(entry["shards"]),
            kept=entry["cache"]["size"],
            hits=entry["cache"]["hits"],
            misses=entry["cache"]["misses"],
            hit_us=entry["cache"]["hit_us"],
        )
        for entry in stats["batchers"]
    }


def table(title: str, parts: Mapping[str, Split]) -> str:
    """Return the parts as a table of plain text."""
    lines = [
        f"{title}:",
        f"  {'batcher':<28}{'shards':>7}{'kept':>6}{'hits':>8}{'misses':>8}{'rate':>8}{'a hit':>9}",
    ]
    for name, one in sorted(parts.items()):
        lookups = one.hits + one.misses
        rate = f"{one.hits / lookups:.1%}" if lookups else "-"
        hit = "-" if one.hit_us is None else f"{one.hit_us:.1f} us"
        lines.append(
            f"  {name:<28}{len(one.shards):>7}{one.kept:>6}{one.hits:>8}{one.misses:>8}{rate:>8}{hit:>9}"
        )
    return "\n".join(lines)


async def _submitted(url: str, requests: int, half_way: asyncio.Event | None = None) -> list[str]:
    """Submit so many requests, the inputs in turn, and return the ids of those that were accepted: all.

    ``half_way`` is set as soon as half of them are.
    """
    texts = [f"input number {number % INPUTS}" for number in range(requests)]
    parts = iter([texts[first : first + AT_ONCE] for first in range(0, requests, AT_ONCE)])
    client, accepted = Client(url), list[str]()

    async def send() -> None:
        for part in parts:
            accepted.extend(await _one(client, part))
            if half_way is not None and 2 * len(accepted) >= requests:
                half_way.set()

    try:
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(send())
    finally:
        await client.close()
    return accepted


async def _one(client: Client, texts: Sequence[str]) -> list[str]:
    left, accepted = list(texts), list[str]()
    while left:
        body = msgspec.json.encode({"inputs": [{"text": text} for text in left]})
        answer = msgspec.json.decode((await client.request("POST", BATCH_PATH, body)).body)
        refused = []
        for text, one in zip(left, answer["jobs"], strict=True):
            if "job_id" in one:
                accepted.append(one["job_id"])
            else:
                refused.append(text)
        left = refused
        if left:
            await asyncio.sleep(RETRY_S)
    return accepted


async def _shared(deployment: Deployment, *, but: Mapping[str, Split] | None = None) -> dict[str, Split]:
    """Wait until the batchers share all shards, one of whom is to be new after a kill; return their parts."""
    parts: dict[str, Split] = {}

    async def shared() -> bool:
        found = split(await deployment.stats())
        parts.clear()
        parts.update({name: one for name, one in found.items() if one.shards})
        loads = [len(one.shards) for one in parts.values()]
        whole = len(loads) == BATCHERS and sum(loads) == SHARDS and max(loads) - min(loads) <= 1
        return whole and (but is None or bool(parts.keys() - but.keys()))

    await _holds(shared, SETTLED_WITHIN_S)
    return parts


async def _counted(deployment: Deployment, requests: int) -> bool:
    """Say whether the heartbeats tell of all jobs."""
    parts = split(await deployment.stats()).values()
    return sum(one.hits + one.misses for one in parts) >= requests


async def _holds(condition: Callable[[], Any], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if await condition():
                return
            await asyncio.sleep(POLL_S)


def _rows(stats: Mapping[str, Any]) -> int:
    histogram: Mapping[str, int] = stats["batches"]["size_histogram"]
    return sum(int(size) * count for size, count in histogram.items())
