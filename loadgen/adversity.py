"""The figures of what admission promises when things go wrong; in full about five minutes on both brokers.

Each is counted from outside: what callers were told, and what became of the jobs that they were promised.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from inferq.messages import decode_job
from inferq.pipeline import Pipeline
from loadgen.aborts import aborted_and_good, address_of
from loadgen.barrage import Barrage, fates
from loadgen.deployment import Deployment, deployed
from loadgen.figures import Figure, at_most, equal
from loadgen.killing import IN_FLIGHT, killed

MODEL: Final = "simulated:1,0.2"
ANSWER_S: Final = 2.0
WITHIN_S: Final = 300.0
AGAIN_WITHIN_S: Final = 60.0
LOOK_S: Final = 0.05
# Long enough that all submits are out, and short enough that none has been given up.
FROZEN_S: Final = 0.4
LIMIT: Final = 200
# Four times the default of the most jobs in a batch.
PREFETCH: Final = 64
REDIS_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of each; ``kills`` is how often each victim is killed."""

    submits: int
    kills: int
    pending: int
    aborts: int
    good: int
    full_submits: int
    seed: int = 4


FULL: Final = Effort(submits=20_000, kills=2, pending=500, aborts=1_000, good=100, full_submits=2_000)
QUICK: Final = Effort(submits=5_000, kills=1, pending=500, aborts=400, good=40, full_submits=1_000)
BRIEF: Final = Effort(submits=1_000, kills=1, pending=50, aborts=40, good=4, full_submits=400)


async def figures(brokers: Sequence[str], *, effort: Effort, say: Callable[[str], None]) -> list[Figure]:
    """Measure everything on each broker in turn; raises OperatorError or ConnectionError where nothing runs."""
    found: list[Figure] = []
    for broker in brokers:
        found += await _killed(broker, effort, say)
        async with deployed(broker, model=MODEL) as deployment:
            found += await _aborted(broker, deployment, effort, say)
            found += await _pending(broker, deployment, effort, say)
        async with deployed(broker, model=MODEL, queue_limit=str(LIMIT)) as deployment:
            found += await _full(broker, deployment, effort, say)
    return found


async def _killed(broker: str, effort: Effort, say: Callable[[str], None]) -> list[Figure]:
    victims = [*_servers(broker), "ingress"] * effort.kills
    random.Random(effort.seed).shuffle(victims)
    async with deployed(broker, model=MODEL, queue_limit=str(effort.submits)) as deployment:
        found = await killed(
            deployment, victims, submits=effort.submits, within_s=WITHIN_S, seed=effort.seed, say=say
        )
    where = f"{broker}, {found.kills} kills of {', '.join(sorted(set(victims)))} in {effort.submits} submits"
    return [
        Figure(name=f"{where}, 202s", value=len(found.barrage.accepted), unit="jobs"),
        equal(f"{where}, 202s lost", found.lost, 0, "jobs"),
        *(
            Figure(name=f"{where}, refused: {kind}", value=count, unit="submits")
            for kind, count in sorted(found.barrage.refused.items())
        ),
        equal(f"{where}, refusals without Retry-After", found.barrage.bare, 0, "submits"),
    ]


async def _pending(
    broker: str, deployment: Deployment, effort: Effort, say: Callable[[str], None]
) -> list[Figure]:
    """Kill the broker, which has answered nothing for a while, with submits pending."""
    victim = _servers(broker)[0]
    barrage = Barrage(url=deployment.url, in_flight=effort.pending, heed=False)
    pid = deployment.pid(victim)
    async with _stopped(pid):
        texts = [f"pending {number}" for number in range(effort.pending)]
        submitting = asyncio.create_task(barrage.run(texts, within_s=WITHIN_S))
        await asyncio.sleep(FROZEN_S)
        pending = effort.pending - barrage.answered
        os.kill(pid, signal.SIGKILL)
        await submitting
    say(f"{broker}: {pending} submits were pending when {victim} was killed")
    again_s = await _accepting(deployment)
    ends = await fates(deployment.url, barrage.accepted, within_s=AGAIN_WITHIN_S)
    where = f"{broker}, {victim} killed with {pending} submits pending"
    return [
        Figure(name=f"{where}, 202s", value=len(barrage.accepted), unit="jobs"),
        equal(f"{where}, false 202s", len(barrage.accepted) - ends["done"], 0, "jobs"),
        at_most(f"{where}, slowest answer", barrage.slowest_s, ANSWER_S, "s"),
        Figure(name=f"{where}, jobs are accepted again after", value=again_s, unit="s"),
    ]


async def _aborted(
    broker: str, deployment: Deployment, effort: Effort, say: Callable[[str], None]
) -> list[Figure]:
    """Abort requests, submit good ones, and look for connections that stay and answers that went astray."""
    say(f"{broker}: aborting {effort.aborts} requests")
    server, port = psutil.Process(deployment.pid("ingress")), address_of(deployment.url)[1]
    await deployment.close()
    before = await _levelled(server, port, 0)
    # Of a job that is done the record no longer has the text.
    async with _stopped(deployment.pid("batcher-1")):
        answered, _ = await aborted_and_good(
            deployment.url, aborts=effort.aborts, good=effort.good, at_once=IN_FLIGHT, seed=effort.seed
        )
        crossed = await _crossed(deployment, answered)
    left = await _levelled(server, port, before)
    where = f"{broker}, {effort.aborts} aborted requests"
    return [
        # Any other answer than 202 to a good one ends the part.
        Figure(name=f"{where}, good submits beside and after them", value=len(answered), unit="jobs"),
        equal(f"{where}, crossed replies", crossed, 0, "jobs"),
        equal(f"{where}, leaked connections", max(0, left - before), 0, "connections"),
    ]


async def _full(
    broker: str, deployment: Deployment, effort: Effort, say: Callable[[str], None]
) -> list[Figure]:
    """Fill the queue of a batcher that is stopped."""
    say(f"{broker}: filling a queue of {LIMIT} before a stopped batcher")
    barrage = Barrage(url=deployment.url, in_flight=IN_FLIGHT, heed=False)
    async with _stopped(deployment.pid("batcher-1")):
        await barrage.run([f"full {number}" for number in range(effort.full_submits)], within_s=WITHIN_S)
    again_s = await _accepting(deployment)
    ends = await fates(deployment.url, barrage.accepted, within_s=AGAIN_WITHIN_S)
    accepted, full = len(barrage.accepted), barrage.refused["503 queue_full"]
    most = LIMIT + PREFETCH + IN_FLIGHT
    where = f"{broker}, batcher stopped, limit {LIMIT}, {effort.full_submits} submits"
    return [
        at_most(f"{where}, accepted", accepted, most, "jobs"),
        equal(f"{where}, accepted and not done after the stop", accepted - ends["done"], 0, "jobs"),
        equal(
            f"{where}, answers but 202 and 503 queue_full", barrage.answered - accepted - full, 0, "submits"
        ),
        equal(f"{where}, refusals without Retry-After", barrage.bare, 0, "submits"),
        at_most(f"{where}, slowest answer", barrage.slowest_s, ANSWER_S, "s"),
        Figure(name=f"{where}, jobs are accepted again after", value=again_s, unit="s"),
    ]


def _servers(broker: str) -> list[str]:
    """Name the servers of a pipeline, that of the queue first."""
    return ["rabbitmq", "valkey"] if broker == "rabbitmq" else ["valkey"]


@asynccontextmanager
async def _stopped(pid: int) -> AsyncIterator[None]:
    """Stop a process for a while; it may be gone at the end."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield
    finally:
        if process.is_running() and process.status() == psutil.STATUS_STOPPED:
            process.resume()


async def _accepting(deployment: Deployment) -> float:
    """Submit until a job is accepted; return how long that took, in seconds, or raise `ConnectionError`."""
    begun = time.monotonic()
    while time.monotonic() - begun < AGAIN_WITHIN_S:
        again = Barrage(url=deployment.url, in_flight=1, heed=False)
        await again.run(["again"], within_s=WITHIN_S)
        if again.accepted:
            return time.monotonic() - begun
        await asyncio.sleep(LOOK_S)
    raise ConnectionError(f"no job is accepted after {AGAIN_WITHIN_S:g} s")


async def _levelled(server: psutil.Process, port: int, most: int) -> int:
    """Return how many clients a server has, once it has no more than ``most`` or has had time enough."""
    over_s = time.monotonic() + ANSWER_S
    while True:
        clients = sum(
            one.laddr.port == port and one.status != psutil.CONN_LISTEN
            for one in server.net_connections("tcp")
        )
        if clients <= most or time.monotonic() > over_s:
            return clients
        await asyncio.sleep(LOOK_S)


async def _crossed(deployment: Deployment, answered: dict[str, str]) -> int:
    """Count the callers that were given the id of a job with another's text."""
    settings = deployment.settings
    redis = Pipeline(settings.redis_url, connect_timeout_s=REDIS_TIMEOUT_S, reply_timeout_s=REDIS_TIMEOUT_S)
    try:
        messages = await redis.call_all(
            [("HGET", settings.names.job(job_id), "message") for job_id in answered]
        )
    finally:
        await redis.close()
    texts = [None if message is None else decode_job(message).text for message in messages]
    return sum(text != own for text, own in zip(texts, answered.values(), strict=True))
