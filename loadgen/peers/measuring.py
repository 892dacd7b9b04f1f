"""Measures one arm of a round, a peer or ours: its answers, then each level by the generator, then saturation.

A peer answers in the HTTP response, so its times are from when a request was due to its answer. Ours are to the pushed
frame. A peer's throughput is what a closed loop of `SATURATING` connections gets, eight full batches at a time; ours,
which answers before the work is done, is read from the batcher's counters while more is offered than is done.
"""

import asyncio
import math
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
from loadgen.deployment import deployed
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.peers.answers import Scores, read, unlike
from loadgen.peers.roster import Peer
from loadgen.peers.rounds import Arm, Level
from loadgen.peers.running import running
from loadgen.peers.servers.order import PATH, Order
from loadgen.saturation import EXPECTED_SHARE, saturating

CONNECTIONS: Final = 256
SATURATING: Final = 128
# After the last request of a level: whoever has not answered by then does not keep up.
PATIENCE_S: Final = 10.0
CLOSED_SLACK_S: Final = 60.0
# Counters are read at both ends, and what is done in between must be more than some batches.
LEAST_SATURATED_S: Final = 4.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long: a level in ``seconds`` after ``warm_s`` that are not counted, and as long at saturation."""

    seconds: float
    warm_s: float


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is the same for all arms of a round; ``rates`` are requests a second by the share that they are."""

    model: str
    order: Order
    rates: Mapping[float, float]
    bare_per_s: float
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
    async with running(peer, order, python=python) as there:
        await _checked(there.url, task, _answer_of_peer, peer.title)
        levels = []
        for share, rate in task.rates.items():
            plan = _plan(task, there.url, rate, there.pids)
            plan = msgspec.structs.replace(plan, path=PATH, follow="nothing", expect=200)
            report = await generated(plan)
            levels.append(level(share, rate, report))
            task.say(f"  {peer.name}: {words(levels[-1])}")
            if not levels[-1].kept_up:
                break
        order_closed = Closed(
            url=there.url,
            path=PATH,
            seconds=task.effort.seconds,
            warm_s=task.effort.warm_s,
            connections=SATURATING,
            pids=dict(there.pids),
        )
        within_s = task.effort.seconds + task.effort.warm_s + CLOSED_SLACK_S
        found = await ask("loadgen.closedloop", order_closed, Rate, within_s=within_s)
        task.say(f"  {peer.name}, saturation: {found.words()}")
    return Arm(levels=levels, saturated_per_s=found.per_s, refused=found.refused)


async def our_arm(broker: str, task: Task) -> Arm:
    """Measure ours with a broker; raises as `peer_arm` does."""
    levels = []
    async with deployed(broker, model=task.model) as deployment:
        await _checked(deployment.url, task, _answer_of_ours, "ours")
        for share, rate in task.rates.items():
            report = await generated(_plan(task, deployment.url, rate, deployment.pids()))
            levels.append(level(share, rate, report))
            task.say(f"  ours, {broker}: {words(levels[-1])}")
            if not levels[-1].kept_up:
                break
    found = await saturating(
        broker,
        task.model,
        expected=task.bare_per_s * EXPECTED_SHARE,
        seconds=max(task.effort.seconds, LEAST_SATURATED_S),
        say=task.say,
    )
    return Arm(levels=levels, saturated_per_s=found.done_per_s, refused={})


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


def _plan(task: Task, url: str, rate: float, pids: Mapping[str, int]) -> Plan:
    warm_s = task.effort.warm_s
    return Plan(
        url=url,
        schedule=Schedule(kind="poisson", rate=rate, seconds=warm_s + task.effort.seconds),
        seed=task.seed,
        warm_s=warm_s,
        connections=CONNECTIONS,
        patience_s=PATIENCE_S,
        pids=dict(pids),
    )


async def _answer_of_peer(client: Client, text: str) -> Scores | None:
    return read((await client.request("POST", PATH, msgspec.json.encode({"text": text}))).body)


async def _answer_of_ours(client: Client, text: str) -> Scores | None:
    accepted = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
    job_id = msgspec.json.decode(accepted.body)["job_id"]
    record = decode_record((await client.request("GET", f"/v1/jobs/{job_id}?wait=20")).body)
    return read(msgspec.json.encode(record.result))


async def _checked(
    url: str, task: Task, answer: Callable[[Client, str], Coroutine[Any, Any, Scores | None]], title: str
) -> None:
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
