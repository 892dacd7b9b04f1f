"""A pipeline of its own for one run, and what it shows to the outside while it runs."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
from prometheus_client.parser import text_string_to_metric_families

from inferq.jobs import JobRecord, decode_record
from inferq.local import LocalPipeline
from inferq.settings import Settings, load
from loadgen.childwork import ask
from loadgen.client import Client
from loadgen.submitter import Order, Sent

# How many records are asked for at a time, once a run is over.
READERS: Final = 32
POLL_S: Final = 0.2
WARM_EVENT: Final = "batcher.warm"
SUBMITTER_SLACK_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the batchers have counted at ``at_s``, on the monotonic clock."""

    at_s: float
    ended: float
    done: float
    batches: float
    splits: float
    tokens: float
    padded_tokens: float

    def since(self, earlier: "Counters") -> "Counters":
        """Return what came after ``earlier``; ``at_s`` is then how long that took."""
        fields = self.__dataclass_fields__
        return Counters(**{name: getattr(self, name) - getattr(earlier, name) for name in fields})

    @property
    def done_per_s(self) -> float:
        """Jobs done a second, of a difference."""
        return self.done / self.at_s

    @property
    def useful_share(self) -> float:
        """Return useful over padded tokens; nan before any batch."""
        return self.tokens / self.padded_tokens if self.padded_tokens else float("nan")


class Deployment:
    """A running pipeline; ``warm`` is what its first batcher logged of its warm-up."""

    def __init__(self, pipeline: LocalPipeline, warm: Mapping[str, Any]) -> None:
        self._pipeline, self.warm = pipeline, warm
        self.url = pipeline.urls.api
        self._client = Client(self.url)

    @property
    def settings(self) -> Settings:
        """The settings as they came out, with every server's URL."""
        return self._pipeline.settings

    @property
    def metrics(self) -> Mapping[str, str]:
        """Where each process tells its metrics, by name."""
        return self._pipeline.urls.metrics

    async def submit(
        self,
        texts: Sequence[str],
        due_s: Sequence[float],
        *,
        deadline_ms: int | None = None,
        in_flight: int = 4096,
    ) -> Sent:
        """Submit each text when it is due; raises `ConnectionError` when the ingress does not answer."""
        extra = {} if deadline_ms is None else {"deadline_ms": deadline_ms}
        order = Order(
            url=self.url,
            bodies=[msgspec.json.encode({"text": text} | extra).decode() for text in texts],
            due_s=list(due_s),
            in_flight=in_flight,
        )
        within_s = max(due_s, default=0.0) + SUBMITTER_SLACK_S
        return await ask("loadgen.submitter", order, Sent, within_s=within_s)

    async def counters(self) -> Counters:
        """Read what the batchers count."""
        total: dict[str, float] = {}
        for name, url in self._pipeline.urls.metrics.items():
            if not name.startswith("batcher"):
                continue
            batcher = Client(url)
            try:
                reply = await batcher.request("GET", "/metrics")
            finally:
                await batcher.close()
            for found, value in sampled(reply.body.decode()).items():
                total[found] = total.get(found, 0.0) + value
        ended = {
            status: total.get(f"inferq_jobs_total{{{status}}}", 0.0)
            for status in ("done", "failed", "cancelled", "expired")
        }
        return Counters(
            at_s=time.monotonic(),
            ended=sum(ended.values()),
            done=ended["done"],
            batches=total.get("inferq_batch_size_count", 0.0),
            splits=total.get("inferq_batch_splits_total", 0.0),
            tokens=total.get("inferq_batch_tokens_total{useful}", 0.0),
            padded_tokens=total.get("inferq_batch_tokens_total{padded}", 0.0),
        )

    async def stats(self) -> dict[str, Any]:
        """Return `/v1/stats`."""
        reply = await self._client.request("GET", "/v1/stats")
        return dict(msgspec.json.decode(reply.body))

    async def waiting(self) -> int:
        """Return how many jobs wait in the queue."""
        return int((await self.stats())["queue"]["depth"])

    async def ended(self, jobs: float, *, within_s: float) -> Counters:
        """Wait until the batchers have ended so many jobs in all, or the time is over; return the last count."""
        over_s = time.monotonic() + within_s
        while True:
            found = await self.counters()
            if found.ended >= jobs or time.monotonic() > over_s:
                return found
            await asyncio.sleep(POLL_S)

    async def records(self, job_ids: Sequence[str], *, within_s: float) -> list[JobRecord]:
        """Return the records of jobs, once they are final or the time is over."""
        over_s = time.monotonic() + within_s
        slots = asyncio.Semaphore(READERS)

        async def one(job_id: str) -> JobRecord:
            while True:
                async with slots:
                    record = decode_record((await self._client.request("GET", f"/v1/jobs/{job_id}")).body)
                if record.final or time.monotonic() > over_s:
                    return record
                await asyncio.sleep(POLL_S)

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(one(job_id)) for job_id in job_ids]
        return [task.result() for task in asked]

    def pid(self, name: str) -> int:
        """Return the process id of a child: ingress, batcher-1, …"""
        pid = self._pipeline.children[name].pid
        if pid is None:
            raise RuntimeError(f"{name} was not started")
        return pid

    def pids(self) -> dict[str, int]:
        """Return the process ids of all children by name."""
        return {name: child.pid for name, child in self._pipeline.children.items() if child.pid is not None}

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Stop a child with SIGSTOP, and let it go on at the end."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def cpu_s(self, name: str) -> float:
        """Return the CPU that a child has used so far, without its own children, in seconds."""
        used = psutil.Process(self.pid(name)).cpu_times()
        return float(used.user + used.system)

    async def close(self) -> None:
        """Close the connections; the pipeline goes on."""
        await self._client.close()


@asynccontextmanager
async def deployed(broker: str, **settings: str) -> AsyncIterator[Deployment]:
    """Run a pipeline on free ports with nothing cached; ``broker`` is streams or rabbitmq, ``settings`` by field.

    Raises:
        OperatorError: it does not start.
    """
    wanted = {
        "cache": "off",
        "log_format": "json",
        "broker_url": "rabbitmq" if broker == "rabbitmq" else "",
    } | settings
    checked, _ = load({}, wanted)
    warm: dict[str, Any] = {}

    def on_line(name: str, line: str) -> None:
        if name == "batcher-1" and WARM_EVENT in line and not warm:
            warm.update(msgspec.json.decode(line))

    with tempfile.TemporaryDirectory(prefix="inferq-bench-") as folder:
        pipeline = LocalPipeline(checked, state_dir=Path(folder), ports_auto=True, on_line=on_line)
        await pipeline.start()
        try:
            deployment = Deployment(pipeline, warm)
            try:
                yield deployment
            finally:
                await deployment.close()
        finally:
            await pipeline.stop()


async def emptied(deployment: Deployment, *, within_s: float) -> None:
    """Wait until no job waits in the queue, or the time is over."""
    over_s = time.monotonic() + within_s
    while True:
        if not await deployment.waiting() or time.monotonic() > over_s:
            return
        await asyncio.sleep(POLL_S)


def sampled(exposition: str) -> dict[str, float]:
    """Return the samples of a metrics page by name; a label's value comes after it in braces."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found
