"""Measures one arm of a round, a peer or ours: its answers, then saturation, then each level by the generator.

Throughput is what a closed loop of `SATURATING` connections gets, eight full batches at a time, from ours as from a
peer: ours is asked to wait for the result. That comes first, since it warms a server up as no light load does, and says
which levels need not be tried. At a level a peer's times are from when a request was due to its answer, since it
answers in the HTTP response; ours are to the pushed frame.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from inferq.errors import OperatorError
from inferq.jobs import decode_record
from loadgen.childwork import ask
from loadgen.client import Client
from loadgen.closedloop import OTHERS_SHARE, Closed, Rate
from loadgen.deployment import deployed, emptied
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.peers.answers import Scores, read, unlike
from loadgen.peers.roster import Peer
from loadgen.peers.rounds import Arm, Level, our_name
from loadgen.peers.running import running
from loadgen.peers.servers.order import PATH, Order

CONNECTIONS: Final = 256
SATURATING: Final = 128
# After the last request of a level: whoever has not answered by then does not keep up.
PATIENCE_S: Final = 10.0
CLOSED_SLACK_S: Final = 60.0
# What is offered so much above what was done at saturation is not kept up with.
BEYOND: Final = 1.25
# Asked one after another, they are behind all that a closed loop has left.
SETTLING_TEXTS: Final = 3
EMPTIED_WITHIN_S: Final = 30.0
# Of ours: to answer with the result, as peers do. Nothing waits so long here.
PREFER_RESULT: Final = "wait=60"

Answer = Callable[[Client, str], Coroutine[Any, Any, Scores | None]]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long: saturation and each level in ``seconds``, after ``first_s`` and ``warm_s`` that are not counted."""

    seconds: float
    first_s: float
    warm_s: float


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is the same for all arms of a round; ``rates`` are requests a second by the share that they are."""

    model: str
    order: Order
    rates: Mapping[float, float]
    effort: Effort
    seed: int
    texts: Sequence[str]
    known: Sequence[Scores]
    say: Callable[[str], None]


async def peer_arm(peer: Peer, task: Task, *, python: Path) -> Arm:
    """Measure a peer.

    Raises:
        OperatorError: it does not start, or does not answer as the model does.
        ConnectionError: it went away.
    """
    order = replace(task.order, wait_ms=peer.wait_ms)
    begun_s = time.monotonic()
    async with running(peer, order, python=python) as there:
        task.say(f"  {peer.name}: answers after {time.monotonic() - begun_s:.1f} s")
        await _checked(there.url, task, _answer_of_peer, peer.title)
        closed = Closed(url=there.url, path=PATH, expect=200, pids=dict(there.pids))
        found = await _saturated(peer.name, task, closed)
        await _settled(there.url, task, _answer_of_peer)
        plan = Plan(url=there.url, path=PATH, follow="nothing", expect=200, pids=dict(there.pids))
        levels = await _levels(peer.name, task, plan, found.per_s)
    return Arm(levels=levels, saturated_per_s=found.per_s, refused=found.refused)


async def our_arm(broker: str, task: Task) -> Arm:
    """Measure ours with a broker; raises as `peer_arm` does."""
    name, begun_s = our_name(broker), time.monotonic()
    async with deployed(broker, model=task.model) as deployment:
        task.say(f"  {name}: answers after {time.monotonic() - begun_s:.1f} s")
        await _checked(deployment.url, task, _answer_of_ours, "ours")
        closed = Closed(url=deployment.url, prefer=PREFER_RESULT, expect=200, pids=deployment.pids())
        found = await _saturated(name, task, closed)
        await emptied(deployment, within_s=EMPTIED_WITHIN_S)
        await _settled(deployment.url, task, _answer_of_ours)
        levels = await _levels(
            name, task, Plan(url=deployment.url, pids=dict(deployment.pids())), found.per_s
        )
    return Arm(levels=levels, saturated_per_s=found.per_s, refused=found.refused)


def level(share: float, rate: float, report: Report) -> Level:
    """Return what a report comes to; what was pushed where pushes were followed, else what was answered."""
    seen = report.pushed if report.plan.follow == "push" else report.submit
    cpu_s = sum(report.cpu_s.values())
    used = report.others_cpu_s / report.seconds > OTHERS_SHARE
    return Level(
        share=share,
        rate=rate,
        offered=report.offered,
        answered=seen.count,
        errors=report.errors,
        p50_ms=math.nan if seen.p50_ms is None else seen.p50_ms,
        p99_ms=math.nan if seen.p99_ms is None else seen.p99_ms,
        cpu_ms=cpu_s / seen.count * 1000 if seen.count else math.nan,
        encoded=seen.encoded,
        invalid=[*report.invalid, *(["something else used the machine"] if used else [])],
    )


def words(one: Level) -> str:
    """Return a level on one line."""
    lost = f", {one.offered - one.answered} of {one.offered} without an answer {one.errors}" * (
        one.answered < one.offered
    )
    doubts = "".join(f"; doubtful: {doubt}" for doubt in one.invalid)
    return (
        f"{one.share:.0%}, {one.rate:.0f}/s: p50 {one.p50_ms:.1f}, p99 {one.p99_ms:.1f} ms,"
        f" {one.cpu_ms:.2f} ms CPU each{lost}{doubts}"
    )


async def _saturated(name: str, task: Task, order: Closed) -> Rate:
    effort = task.effort
    order = msgspec.structs.replace(
        order, seconds=effort.seconds, warm_s=effort.first_s, connections=SATURATING
    )
    within_s = effort.seconds + effort.first_s + CLOSED_SLACK_S
    found = await ask("loadgen.closedloop", order, Rate, within_s=within_s)
    task.say(f"  {name}, saturation: {found.words()}")
    return found


async def _levels(name: str, task: Task, plan: Plan, most_per_s: float) -> list[Level]:
    """Run levels from the lowest on, up to the first that is not kept up with, or need not be tried."""
    levels: list[Level] = []
    warm_s = task.effort.warm_s
    for share, rate in task.rates.items():
        if rate > BEYOND * most_per_s:
            task.say(f"  {name}: {share:.0%}, {rate:.0f}/s, is left out, being far above saturation")
            break
        order = msgspec.structs.replace(
            plan,
            schedule=Schedule(kind="poisson", rate=rate, seconds=warm_s + task.effort.seconds),
            seed=task.seed,
            warm_s=warm_s,
            connections=CONNECTIONS,
            patience_s=PATIENCE_S,
        )
        levels.append(level(share, rate, await generated(order)))
        task.say(f"  {name}: {words(levels[-1])}")
        if not levels[-1].kept_up:
            break
    return levels


async def _settled(url: str, task: Task, answer: Answer) -> None:
    """Wait until what a closed loop has left is done: its clients are gone, their last requests are not."""
    client = Client(url)
    try:
        for text in task.texts[:SETTLING_TEXTS]:
            await answer(client, text)
    finally:
        await client.close()


async def _answer_of_peer(client: Client, text: str) -> Scores | None:
    return read((await client.request("POST", PATH, msgspec.json.encode({"text": text}))).body)


async def _answer_of_ours(client: Client, text: str) -> Scores | None:
    accepted = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
    job_id = msgspec.json.decode(accepted.body)["job_id"]
    record = decode_record((await client.request("GET", f"/v1/jobs/{job_id}?wait=20")).body)
    return read(msgspec.json.encode(record.result))


async def _checked(url: str, task: Task, answer: Answer, title: str) -> None:
    """Raise `OperatorError` unless all texts, sent at a time so that they share batches, are answered as known."""
    client = Client(url)
    try:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(answer(client, text)) for text in task.texts]
    finally:
        await client.close()
    wrong = unlike([one.result() for one in asked], task.known)
    if wrong:
        raise OperatorError(
            f"{title} answers {wrong} of {len(task.known)} texts otherwise than the bare model"
        )
