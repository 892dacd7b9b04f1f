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

from batcher.assembly import Assembly, assemble
from batcher.cache import ResultCache
from batcher.direct import DirectCalls
from batcher.engine import Answer, Engine
from batcher.enginecircuit import CANARY, EngineCircuit
from batcher.shardkeeper import ShardKeeper
from batcher.tally import Tally
from batcher.tokenizer import SimulatedTokenizer
from batcher.wire import Load
from batcher.worker import Worker
from inferq.background import end
from inferq.broker import make_broker
from inferq.broker.base import Broker, Consumer
from inferq.broker.stream_holder import StreamHolder
from inferq.catalog import ModelCard, Task
from inferq.jobs import Job, JobRecord, decode_record
from inferq.messages import encode_job
from inferq.redis import connect
from inferq.settings import Settings, load, with_values
from inferq.shards import ShardLeases
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
    """An engine that notes what it runs, in order; canaries, which are no jobs', apart."""

    runs: list[Run]
    canaries: int

    async def run(
        self,
        rows: Sequence[Sequence[int]],
        *,
        timeout_ms: float,
        wide: bool = False,
        types: Sequence[Sequence[int]] = (),
    ) -> Answer:
        """Note a batch, and run it."""
        if list(rows) == [CANARY]:
            self.canaries += 1
            return await super().run(rows, timeout_ms=timeout_ms, wide=wide)
        self.runs.append(Run(rows=[tuple(row) for row in rows], timeout_ms=timeout_ms))
        return await super().run(rows, timeout_ms=timeout_ms, wide=wide, types=types)

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
    circuit: EngineCircuit
    cache: ResultCache
    keeper: ShardKeeper | None
    keeping: asyncio.Task[None] | None

    @property
    def shards(self) -> set[int]:
        """The shards that it consumes, under hash routing."""
        assert self.keeper is not None
        return set(self.keeper.consumed)

    async def dies(self) -> None:
        """End as a process that is killed does: nothing is given back, no lease is ended."""
        assert self.keeping is not None
        self.working.cancel()
        self.keeping.cancel()
        await asyncio.wait([self.working, self.keeping])
        await _cut_off(self.consumer)

    async def idle(self, timeout_s: float = 30) -> None:
        """Wait until nothing is in its hands."""
        await eventually(
            lambda: not self.worker.in_hand, timeout_s, what=f"an idle batcher (it holds {self.worker.held})"
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
            self.thaw()

    def thaw(self) -> None:
        """Let a frozen engine go on."""
        assert self.engine.pid is not None
        os.kill(self.engine.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the engine."""
        assert self.engine.pid is not None
        os.kill(self.engine.pid, signal.SIGKILL)

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
        queue = names.queue_of(job)
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
        engine.runs, engine.canaries = [], 0
        batcher_id, tally = f"b{self.batchers}", Tally(metrics)
        self.batchers += 1
        assembly = await assemble(
            settings, engine, _tokenizer, self.store, tally, metrics, batcher_id=batcher_id
        )
        # The warm-up's are not the jobs'.
        engine.runs.clear()
        engine.canaries = 0
        worker = assembly.worker
        consumer, keeper, keeping = await self._consume(settings, batcher_id, assembly, metrics)
        working = asyncio.create_task(worker.run())
        direct = DirectCalls(batcher_id)
        direct.load(ModelCard(name="simulated", spec=model, task=Task.TEXT))
        direct.begin(assembly)
        try:
            yield Running(
                worker=worker,
                engine=engine,
                consumer=consumer,
                working=working,
                tally=tally,
                metrics=metrics,
                direct=direct,
                circuit=assembly.circuit,
                cache=assembly.cache,
                keeper=keeper,
                keeping=keeping,
            )
        finally:
            worker.stop()
            await consumer.stop()
            await asyncio.wait([working], timeout=5)
            working.cancel()
            ended = await asyncio.gather(working, return_exceptions=True)
            await end(keeping)
            await consumer.close()
            if keeper is not None:
                await keeper.leave()
            await engine.stop()
        faults = [one for one in ended if not isinstance(one, asyncio.CancelledError | None)]
        assert not faults, faults

    async def _consume(
        self, settings: Settings, batcher_id: str, assembly: Assembly, metrics: Metrics
    ) -> tuple[Consumer, ShardKeeper | None, asyncio.Task[None] | None]:
        names, worker, circuit = settings.names, assembly.worker, assembly.circuit
        if not settings.by_hash:
            consumer = await self.broker.consume(
                names.queues(), settings.prefetch, batcher_id, worker.deliver
            )
            worker.attach(consumer)
            return consumer, None, None
        shared = await self.broker.consume_shards("simulated", settings.prefetch, batcher_id, worker.deliver)
        worker.attach(shared)
        leases = ShardLeases(self.store.redis, names, "simulated")
        keeper = ShardKeeper(
            leases,
            shared,
            names,
            metrics,
            model="simulated",
            me=batcher_id,
            give_back=worker.let_go,
            rests=lambda: circuit.rests,
        )
        return shared, keeper, asyncio.create_task(keeper.run())


async def _cut_off(consumer: Any) -> None:
    """End a consumer without a word to Redis or the broker but the end of its connection."""
    if isinstance(consumer, StreamHolder):
        await end(*consumer._tasks)  # type: ignore[attr-defined]  # both kinds have them
    else:
        await end(consumer._looking)
        await consumer._link.close()


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
