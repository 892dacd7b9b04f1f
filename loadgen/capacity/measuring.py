"""What a job costs each process while a steady load runs: the kernel's count of CPU, and what Redis says of itself.

One pipeline for each broker, and in it one load after another: jobs that the notifier only hears of, jobs that are
followed by push, jobs with a webhook, and some that wait before a stopped batcher. The model is simulated, so that the
batcher's cost is its own, and takes long enough for batches to be of some size. What processes do at rest is in the
costs.
"""

import base64
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from inferq.ports import LOOPBACK
from inferq.redis import connect
from inferq.webhooks.signing import secret_of
from loadgen.capacity.costs import Costs, EngineCosts, JobCosts, cpu_us, medians
from loadgen.capacity.counted import WITHIN_S, counted, engines
from loadgen.childwork import ask
from loadgen.companion import companion
from loadgen.cputime import CpuMeter
from loadgen.deployment import Deployment, deployed, emptied
from loadgen.figures import Figure, equal
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.run import generated
from loadgen.hookreceiver import Receiver, Taken, Tell
from loadgen.idlesockets import held
from loadgen.machine import machine, programs
from loadgen.schedules import constant
from loadgen.storedjobs import stored_jobs
from loadgen.submitter import Order, Sent
from loadgen.texts import unique
from loadgen.watchers import Count, Watch
from loadgen.watchers import Tell as Watching

# At 2,000 a second it is busy four fifths of the time, in batches of about ten.
MODEL: Final = "simulated:3,0.2"
ENDLESS_JOBS: Final = "10000000"
# A webhook is signed and sent by the notifier and checked by a receiver in Python, on the same cores.
WEBHOOK_SHARE: Final = 0.25
# They are submitted well within a consumer's lease of 5 s.
TURN_JOBS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class Effort:
    """A load of ``rate`` jobs a second for ``seconds``; how many jobs wait, how many sockets idle.

    The built-in model is given ``engine_jobs`` at once, a full-size one a tenth of them.
    """

    rate: float = 2_000.0
    seconds: float = 10.0
    waiting: int = 1_000
    sockets: int = 2_000
    engine_jobs: int = 4_000


async def measured(broker: str, effort: Effort, *, say: Callable[[str], None]) -> tuple[JobCosts, int]:
    """Run the loads on a fresh pipeline; return the costs, and how many jobs were refused or missed."""
    secret = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
    settings = {"webhook_hosts": LOOPBACK, "webhook_secret": secret}
    async with (
        companion("loadgen.hookreceiver", Receiver(secret=secret_of(secret, ""), refusals=0)) as receiver,
        deployed(
            broker, model=MODEL, batch_policy="greedy", queue_limit=ENDLESS_JOBS, **settings
        ) as deployment,
    ):
        hook = await receiver.hear(str, within_s=WITHIN_S)
        await _submitted(deployment, effort.rate, 1.0)
        begun = await deployment.counters()
        async with _heard(deployment), counted(deployment) as quiet:
            sent = await _submitted(deployment, effort.rate, effort.seconds)
        batches = (await deployment.counters()).since(begun)
        jobs = len(sent.jobs)
        refused = sum(sent.refused.values())
        heard_us = cpu_us(quiet.cpu_s, jobs)
        say(f"  {broker}, heard of: {_words(heard_us)}")

        async with counted(deployment) as followed:
            plan = Plan(
                url=deployment.url, schedule=Schedule(rate=effort.rate, seconds=effort.seconds), follow="push"
            )
            seen = await generated(plan)
        refused += seen.offered - seen.done
        watched_us = cpu_us(followed.cpu_s, seen.accepted)
        say(f"  {broker}, followed: {_words(watched_us)}")

        async with counted(deployment) as hooked:
            sent = await _submitted(deployment, effort.rate * WEBHOOK_SHARE, effort.seconds, webhook=hook)
            receiver.tell(Tell(webhooks=len(sent.jobs), within_s=WITHIN_S))
            taken = await receiver.hear(Taken, within_s=2 * WITHIN_S)
        refused += sum(sent.refused.values()) + len(sent.jobs) - taken.taken
        webhook_us = cpu_us(hooked.cpu_s, len(sent.jobs))
        say(f"  {broker}, with a webhook: {_words(webhook_us)}")
        waiting_bytes = await _waiting(deployment, effort.waiting)
    costs = JobCosts(
        broker=broker,
        rate=effort.rate,
        jobs=jobs,
        mean_batch=batches.done / batches.batches if batches.batches else 0.0,
        cpu_us=heard_us,
        watched_us=watched_us,
        webhook_us=webhook_us,
        redis_commands=quiet.redis["total_commands_processed"] / jobs,
        record_bytes=quiet.redis["used_memory"] / jobs,
        waiting_bytes=waiting_bytes,
        written_bytes=quiet.redis["aof_current_size"] / jobs,
        network_bytes=quiet.network_bytes / jobs,
        pushed_bytes=followed.network_bytes / seen.accepted - quiet.network_bytes / jobs,
    )
    return costs, refused


async def engine(model: str, jobs: int, *, say: Callable[[str], None]) -> EngineCosts:
    """Let about so many jobs wait before a stopped batcher, and read what its engine uses until all have ended."""
    async with deployed("streams", model=model, queue_limit=ENDLESS_JOBS) as deployment:
        begun, jobs_in = await deployment.counters(), 0
        meter = CpuMeter(engines(deployment))
        for first in range(0, jobs, TURN_JOBS):
            turn = min(TURN_JOBS, jobs - first)
            with deployment.frozen("batcher-1"):
                sent = await deployment.submit(list(unique(turn)), [0.0] * turn)
            jobs_in += len(sent.jobs)
            ended = await deployment.ended(begun.ended + jobs_in, within_s=WITHIN_S)
        counted = ended.since(begun)
        used_s = sum(meter.seconds().values())
    found = EngineCosts(
        model=deployment.settings.model_name,
        cpu_us=used_s / counted.done * 1e6,
        mean_batch=counted.done / counted.batches,
    )
    say(f"  engine, {found.model}: {found.cpu_us:.0f} us a job, {found.mean_batch:.1f} a batch")
    return found


async def costs(
    brokers: Sequence[str],
    models: Mapping[str, int],
    effort: Effort,
    *,
    count: int,
    say: Callable[[str], None],
) -> tuple[Costs, int]:
    """Measure all of it, the brokers ``count`` times in turn; ``models`` says how many jobs each is given.

    Returns what was found, and how many jobs were refused or missed in all.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    where = machine()
    runs: dict[str, list[JobCosts]] = {broker: [] for broker in brokers}
    missed = 0
    for number in range(count):
        for broker in brokers:
            say(f"costs, round {number + 1} of {count}: {broker}, {effort.rate:g} jobs/s")
            one, lost = await measured(broker, effort, say=say)
            runs[broker].append(one)
            missed += lost
    real = [await engine(model, jobs, say=say) for model, jobs in models.items()]
    sockets = await held(effort.sockets, say=say)
    texts = [len(text.encode()) for text in unique(round(effort.rate * effort.seconds))]
    found = Costs(
        at=at,
        machine=where,
        programs=programs(),
        text_bytes=sum(texts) / len(texts),
        socket_kib=sockets.each_kib,
        jobs=[medians(one) for one in runs.values()],
        engines=real,
    )
    return found, missed


def figures(found: Costs, missed: int) -> list[Figure]:
    """Return the figures of a run."""
    lines = [equal("costs, jobs refused or missed", missed, 0, "jobs")]
    for one in found.jobs:
        where = f"costs, {one.broker}, {one.rate:g}/s"
        for kind, used in (
            ("a job that is heard of", one.cpu_us),
            ("a followed job", one.watched_us),
            ("a job with a webhook", one.webhook_us),
        ):
            lines += [
                Figure(name=f"{where}, {name}, {kind}", value=value, unit="us")
                for name, value in used.items()
            ]
        for name, value in (
            ("a record that has ended", one.record_bytes),
            ("a job that waits", one.waiting_bytes),
            ("written to the append-only file", one.written_bytes),
            ("on the network", one.network_bytes),
            ("on the network for a follower", one.pushed_bytes),
        ):
            lines.append(Figure(name=f"{where}, {name}", value=value, unit="bytes"))
        lines.append(Figure(name=f"{where}, commands of Redis", value=one.redis_commands, unit="a job"))
        lines.append(Figure(name=f"{where}, mean batch", value=one.mean_batch, unit="jobs"))
    for model in found.engines:
        lines.append(Figure(name=f"costs, engine, {model.model}", value=model.cpu_us, unit="us"))
    lines.append(Figure(name="costs, memory of an idle socket", value=found.socket_kib, unit="KiB"))
    return lines


@asynccontextmanager
async def _heard(deployment: Deployment) -> AsyncIterator[None]:
    """Have the notifier hear of every job while nobody follows one: somebody waits for another, which does not end.

    That one has no message; the sweeper notices after `FIRST_LOOK_MS` at the earliest.
    """
    settings = deployment.settings
    async with stored_jobs(settings.redis_url, settings) as records:
        order = Watch(url=settings.stream_url, sockets=1, jobs=await records.create(1))
        async with companion("loadgen.watchers", order) as watcher:
            await watcher.hear(Count, within_s=WITHIN_S)
            watcher.tell(Watching(do="subscribe", within_s=WITHIN_S))
            await watcher.hear(Count, within_s=WITHIN_S)
            yield


async def _submitted(deployment: Deployment, rate: float, seconds: float, *, webhook: str = "") -> Sent:
    due_s = list(constant(rate, seconds))
    extra = {"webhook": webhook} if webhook else {}
    order = Order(
        url=deployment.url,
        bodies=[msgspec.json.encode({"text": text} | extra).decode() for text in unique(len(due_s))],
        due_s=due_s,
    )
    return await ask("loadgen.submitter", order, Sent, within_s=seconds + WITHIN_S)


async def _waiting(deployment: Deployment, jobs: int) -> float:
    """Return by how much Redis grows for a job that waits."""
    redis = connect(deployment.settings.redis_url)
    try:
        with deployment.frozen("batcher-1"):
            before = await _used_memory(redis)
            sent = await deployment.submit(list(unique(jobs)), [0.0] * jobs)
            grown = await _used_memory(redis) - before
        await emptied(deployment, within_s=WITHIN_S)
    finally:
        await redis.aclose()
    return grown / len(sent.jobs)


async def _used_memory(redis: Any) -> float:
    return float((await redis.info("memory"))["used_memory"])


def _words(used_us: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} us" for name, value in used_us.items())
