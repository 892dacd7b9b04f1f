"""Batchers in the test's own process, on the real store, a real broker and real engine processes.

The model in the engines is a simulated one, which obeys the orders in its texts. Each engine notes what it was given.
"""

import asyncio
import os
import secrets
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from batcher.assembly import assemble
from batcher.direct import DirectCalls
from batcher.engine import Answer, Engine
from batcher.tally import Tally
from batcher.tokenizer import SimulatedTokenizer
from batcher.wire import Load
from batcher.worker import Worker
from inferq.broker import make_broker
from inferq.broker.base import Broker, Consumer
from inferq.catalog import ModelCard, Task
from inferq.jobs import Job, JobRecord, decode_record
from inferq.messages import encode_job
from inferq.redis import connect
from inferq.settings import Settings, load, with_values
from inferq.steps import Origin
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from tests.deployment import ALL_TIME_MS, delete_queues
from tests.support import eventually

MODEL: Final = "simulated:1,0.1,faults"
# What does not depend on the broker is tested on one.
on_streams: Final = pytest.mark.parametrize("broker_url", ["streams"], indirect=True)

_tokenizer = SimulatedTokenizer(faults=True)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A batch that an engine was given."""

    rows: list[tuple[int, ...]]
    timeout_ms: float

    def has(self, text: str) -> bool:
        """Say whether a text is one of its rows."""
        return tuple(_tokenizer.encode(text).ids) in self.rows


class NotingEngine(Engine):
    """An engine that notes what it runs, in order."""

    runs: list[Run]

    async def run(self, rows: Sequence[Sequence[int]], *, timeout_ms: float, wide: bool = False) -> Answer:
        """Note a batch, and run it."""
        self.runs.append(Run(rows=[tuple(row) for row in rows], timeout_ms=timeout_ms))
        return await super().run(rows, timeout_ms=timeout_ms, wide=wide)

    def runs_of(self, text: str) -> list[Run]:
        """Return the runs that a text was in."""
        return [run for run in self.runs if run.has(text)]


@dataclass(frozen=True, kw_only=True)
class Running:
    """A batcher that works."""

    worker: Worker
    engine: NotingEngine
    consumer: Consumer
    working: asyncio.Task[None]
    tally: Tally
    metrics: Metrics
    direct: DirectCalls

    async def idle(self, timeout_s: float = 30) -> None:
        """Wait until nothing is in its hands."""
        await eventually(
            lambda: self.worker.idle, timeout_s, what=f"an idle batcher (it holds {self.worker.held})"
        )

    async def computing(self, text: str) -> None:
        """Wait until a text is in the engine."""
        await eventually(lambda: self.engine.runs_of(text), what=f"a run of {text!r}")

    async def holds(self, *job_ids: str) -> None:
        """Wait until jobs are in its hands."""
        await eventually(lambda: set(job_ids) <= set(self.worker.held), what="the jobs' arrival")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the engine: what computes does not end, though it may be overdue."""
        assert self.engine.pid is not None
        os.kill(self.engine.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.engine.pid, signal.SIGCONT)

    async def leave(self) -> None:
        """Stop as the service does: finish what computes, give back the rest."""
        await self.consumer.stop()
        self.worker.stop()
        await asyncio.wait_for(asyncio.shield(self.working), 10)
        await self.worker.give_back()


@dataclass(kw_only=True)
class Rig:
    """One deployment's store and broker, and as many batchers as a test starts."""

    settings: Settings
    store: Store
    broker: Broker
    batchers: int = 0
    origins: dict[str, Origin] = field(default_factory=dict)

    async def submit(self, text: str, **fields: Any) -> str:
        """Accept a job as the ingress does."""
        fields = {"created_ms": int(wall_ms()), **fields}
        job = Job(job_id=secrets.token_hex(16), model="simulated", text=text, **fields)
        names = self.settings.names
        queue = names.queue("simulated", job.priority)
        self.origins[job.job_id] = Origin(job=job, queue=queue, message=encode_job(job))
        await self.broker.accept(self.origins[job.job_id])
        return job.job_id

    async def submit_all(self, texts: Sequence[str], **fields: Any) -> list[str]:
        """Accept jobs, nearly at once, in order as far as the broker keeps it."""
        return await asyncio.gather(*(self.submit(text, **fields) for text in texts))

    async def record(self, job_id: str) -> JobRecord:
        """Read a record."""
        data = await self.store.read(job_id)
        assert data is not None, job_id
        return decode_record(data)

    async def ended(self, job_ids: Sequence[str], timeout_s: float = 60) -> list[JobRecord]:
        """Wait until all jobs have ended; a failure says how many were in which status."""
        seen: list[JobRecord] = []

        async def all_final() -> bool:
            found = await self.store.read_many(job_ids)
            seen[:] = [decode_record(data) for data in found if data is not None]
            return len(seen) == len(job_ids) and all(one.final for one in seen)

        try:
            await eventually(all_final, timeout_s, what="the end of every job")
        except AssertionError as error:
            raise AssertionError(f"{error}: {Counter(str(one.status) for one in seen)}") from None
        return seen

    async def ended_one(self, job_id: str, timeout_s: float = 60) -> JobRecord:
        """Wait until a job has ended."""
        (record,) = await self.ended([job_id], timeout_s)
        return record

    async def charges(self, job_id: str) -> int:
        """Return how many attempts were charged to a job."""
        value: Any = await self.store.redis.hget(self.settings.names.job(job_id), "charges")
        return int(value or 0)

    async def nothing_left(self) -> bool:
        """Say whether no message waits and no record is open."""
        return await self.broker.depth() == 0 and not await self.store.due(ALL_TIME_MS, 10)

    @asynccontextmanager
    async def batcher(self, model: str = MODEL, **changes: Any) -> AsyncIterator[Running]:
        """Run one batcher, ``changes`` being settings of its own."""
        settings = with_values(self.settings, model=model, **changes)
        metrics = Metrics()
        engine = NotingEngine(
            Load(spec=model, folder=None, device="cpu", precision="fp32"), pad_id=_tokenizer.pad_id
        )
        engine.runs = []
        batcher_id, tally = f"b{self.batchers}", Tally(metrics)
        self.batchers += 1
        assembly = await assemble(settings, engine, _tokenizer, self.store, tally, batcher_id=batcher_id)
        # The warm-up's are not the jobs'.
        engine.runs.clear()
        worker = assembly.worker
        consumer = await self.broker.consume(
            settings.names.queues(), settings.prefetch, batcher_id, worker.deliver
        )
        worker.attach(consumer)
        working = asyncio.create_task(worker.run())
        direct = DirectCalls(batcher_id)
        direct.load(ModelCard(name="simulated", spec=model, task=Task.TEXT))
        direct.begin(worker, assembly.intake, batch_jobs=assembly.planner.max_batch_size)
        try:
            yield Running(
                worker=worker,
                engine=engine,
                consumer=consumer,
                working=working,
                tally=tally,
                metrics=metrics,
                direct=direct,
            )
        finally:
            worker.stop()
            await consumer.stop()
            await asyncio.wait([working], timeout=5)
            working.cancel()
            ended = await asyncio.gather(working, return_exceptions=True)
            await consumer.close()
            await engine.stop()
        faults = [one for one in ended if not isinstance(one, asyncio.CancelledError | None)]
        assert not faults, faults


MakeRig = Callable[..., Awaitable[Rig]]


@asynccontextmanager
async def rigs(namespace: str, redis_url: str, broker_url: str) -> AsyncIterator[MakeRig]:
    """Lend a maker of rigs in one namespace, which takes settings; all it opened ends here."""
    opened: list[Rig] = []

    async def make(**flags: str) -> Rig:
        environ = {
            "INFERQ_REDIS_URL": redis_url,
            "INFERQ_BROKER_URL": broker_url,
            "INFERQ_NAMESPACE": namespace,
            "INFERQ_MODEL": MODEL,
        }
        settings, _ = load(environ, flags)
        store = Store(
            connect(redis_url, reply_timeout_s=5.0), settings.names, job_ttl_s=600, result_ttl_s=600
        )
        broker = make_broker(settings, store)
        opened.append(Rig(settings=settings, store=store, broker=broker))
        await broker.open()
        return opened[-1]

    yield make
    for rig in opened:
        await rig.broker.close()
        await rig.store.redis.aclose()
    if opened and broker_url.startswith("amqp"):
        names = opened[0].settings.names
        await delete_queues(broker_url, [*names.queues(), names.dead_queue, names.dropped_queue])
