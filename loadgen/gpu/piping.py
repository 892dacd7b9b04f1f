"""The pipeline on a device: at saturation by several feeders, at a steady rate, and where memory is short."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from inferq.jobs import Status
from loadgen.childwork import ask, said
from loadgen.client import Client
from loadgen.closedloop import Closed, Rate
from loadgen.deployment import Deployment, deployed, sampled
from loadgen.figures import percentile
from loadgen.gpu.found import Fallback, Light, Memory, Piped
from loadgen.schedules import constant
from loadgen.texts import dealt

JOBS_A_REQUEST: Final = 128
CONNECTIONS: Final = 4
TEXTS: Final = 20_000
WARM_S: Final = 2.0
SLACK_S: Final = 60.0
FIRST_WITHIN_S: Final = 60.0
# Never reached in a run: a refusal would cost the ingress what is measured.
QUEUE_LIMIT: Final = "5000000"
SHORT: Final = "inferq_batch_out_of_memory_total"
LIMIT: Final = "inferq_batch_tokens_limit"
SIMULATED: Final = "simulated:1,0.1,faults"
HUNGRY: Final = "[[memory]] has room alone only"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A pipeline to run: of ``batchers`` on one device, fed by ``feeders``."""

    model: str
    precision: str
    device: str
    max_rows: int
    max_tokens: int
    batchers: int = 1
    ingresses: int = 1
    feeders: int = 1

    def settings(self, **more: str) -> dict[str, str]:
        """Return what it is started with."""
        return {
            "model": self.model,
            "precision": self.precision,
            "device": self.device,
            "max_batch_size": str(self.max_rows),
            "max_batch_tokens": str(self.max_tokens),
            "batchers": str(self.batchers),
            "ingresses": str(self.ingresses),
            "queue_limit": QUEUE_LIMIT,
        } | more


async def saturated(way: Way, deployment: Deployment, *, seconds: float) -> Piped:
    """Feed a fresh deployment as fast as it takes jobs, and measure for ``seconds``."""
    order = Closed(
        url=deployment.url,
        path="/v1/infer/batch",
        jobs=JOBS_A_REQUEST,
        connections=CONNECTIONS,
        texts=TEXTS,
        warm_s=WARM_S,
        seconds=seconds,
    )
    within_s = WARM_S + seconds + SLACK_S
    async with asyncio.TaskGroup() as tasks:
        feeding = [
            tasks.create_task(ask("loadgen.closedloop", order, Rate, within_s=within_s))
            for _ in range(way.feeders)
        ]
        await deployment.ended(1, within_s=FIRST_WITHIN_S)
        await asyncio.sleep(WARM_S)
        begun = await deployment.counters()
        waiting = [await deployment.waiting()]
        await asyncio.sleep(max(1.0, seconds - 1.0))
        waiting.append(await deployment.waiting())
        counted = (await deployment.counters()).since(begun)
    fed = [task.result() for task in feeding]
    return Piped(
        precision=way.precision,
        max_rows=way.max_rows,
        batchers=way.batchers,
        ingresses=way.ingresses,
        feeders=way.feeders,
        device=str((await deployment.stats())["batchers"][0]["device"]),
        done_per_s=counted.done_per_s,
        fed_per_s=sum(one.per_s for one in fed),
        mean_batch=counted.done / counted.batches if counted.batches else 0.0,
        useful_share=counted.useful_share if counted.padded_tokens else 0.0,
        waiting=min(waiting),
        short=(await samples(deployment)).get(SHORT, 0.0),
    )


async def steady(way: Way, deployment: Deployment, *, rate: float, seconds: float) -> Light:
    """Submit at a steady rate, one job a request, and read how long each took."""
    due_s = list(constant(rate, seconds))
    sent = await deployment.submit(list(dealt(len(due_s), seed=1)), due_s)
    records = await deployment.records(list(sent.jobs.values()), within_s=SLACK_S)
    took_ms = sorted(
        record.timings_ms.total for record in records if record.timings_ms and record.timings_ms.total
    )
    return Light(
        precision=way.precision,
        rate=rate,
        jobs=len(took_ms),
        p50_ms=percentile(took_ms, 0.5) if took_ms else 0.0,
        p99_ms=percentile(took_ms, 0.99) if took_ms else 0.0,
    )


async def short_of_memory(way: Way, *, texts: Sequence[str], said_by: str, **more: str) -> Memory:
    """Send texts whose batches a device has no memory for, and count what became of them."""
    async with deployed("streams", **way.settings(**more)) as deployment:
        sent = await deployment.submit(texts, [0.0] * len(texts))
        records = await deployment.records(list(sent.jobs.values()), within_s=SLACK_S)
        found, counted = await samples(deployment), await deployment.counters()
        return Memory(
            way=said_by,
            jobs=len(texts),
            done=sum(record.status is Status.DONE for record in records),
            short=found.get(SHORT, 0.0),
            splits=counted.splits,
            restarts=int(found.get("inferq_engine_restarts_total", 0.0)),
            most_tokens=found.get(LIMIT, 0.0),
            set_tokens=way.max_tokens,
        )


async def fallback(model: str, precision: str) -> Fallback:
    """Load a model where no GPU is to be seen, as `auto` and as `cuda`."""
    check = [sys.executable, "-m", "batcher.check"]
    hidden = ["env", "CUDA_VISIBLE_DEVICES=-1"]
    flags = ["--precision", precision, "--json", model]
    auto = msgspec.json.decode(
        await said([*hidden, *check, "--device", "auto", *flags], within_s=2 * SLACK_S)
    )
    refusal, code = "", 0
    try:
        await said([*hidden, *check, "--device", "cuda", *flags], within_s=2 * SLACK_S)
    except ConnectionError as error:
        refusal, code = str(error), 1
    return Fallback(
        device=auto["device"], reason=auto["fallback_reason"] or "", refusal=refusal, refusal_code=code
    )


async def samples(deployment: Deployment) -> dict[str, float]:
    """Return what the first batcher's metrics say."""
    batcher = Client(deployment.metrics["batcher-1"])
    try:
        return sampled((await batcher.request("GET", "/metrics")).body.decode())
    finally:
        await batcher.close()
