"""A batcher's loop with the real store, both real brokers and a real engine process (a simulated model in it)."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from batcher.engine import Engine
from batcher.policy import make_policy
from batcher.settling import Settler
from batcher.tally import Tally
from batcher.tokenizer import SimulatedTokenizer
from batcher.window import Window
from batcher.wire import Load
from batcher.worker import Worker
from inferq.broker import make_broker
from inferq.broker.base import Broker, Consumer
from inferq.jobs import ErrorCode, Job, JobRecord, Priority, Status, decode_record
from inferq.messages import encode_job
from inferq.redis import connect
from inferq.settings import Settings, load
from inferq.steps import Origin, cancel, give_back, start
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from tests.support import eventually

MODEL = "simulated:1,0.1,faults"


@dataclass(kw_only=True)
class Rig:
    """One deployment's store and broker, and as many batchers as a test starts."""

    settings: Settings
    store: Store
    broker: Broker
    workers: list[Worker] = field(default_factory=list)
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

    async def submit_all(self, texts: list[str]) -> list[str]:
        """Accept jobs in order."""
        return [await self.submit(text) for text in texts]

    async def record(self, job_id: str) -> JobRecord:
        """Read a record."""
        data = await self.store.read(job_id)
        assert data is not None, job_id
        return decode_record(data)

    async def ended(self, job_ids: list[str], timeout_s: float = 30) -> list[JobRecord]:
        """Wait until all jobs have ended."""

        async def all_final() -> list[JobRecord] | None:
            records = [
                decode_record(data) for data in await self.store.read_many(job_ids) if data is not None
            ]
            return records if len(records) == len(job_ids) and all(one.final for one in records) else None

        found: list[JobRecord] = await eventually(all_final, timeout_s, what="every job has ended")
        return found

    @asynccontextmanager
    async def batcher(
        self, model: str = MODEL
    ) -> AsyncIterator[tuple[Worker, Engine, Consumer, asyncio.Task[None]]]:
        """Run one batcher."""
        settings = self.settings
        engine = Engine(
            Load(spec=model, folder=None, device="cpu", precision="fp32", threads=1),
            timeout_ms=settings.engine_timeout_ms,
            pad_id=0,
        )
        loaded = await engine.start()
        tally = Tally(Metrics())
        batcher_id = f"b{len(self.workers)}"
        settler = Settler(
            self.store, tally, batcher_id=batcher_id, labels=loaded.labels, max_attempts=settings.max_attempts
        )
        worker = Worker(
            window=Window(max_batch_size=settings.max_batch_size, max_batch_tokens=settings.max_batch_tokens),
            policy=make_policy(
                settings.batch_policy,
                max_batch_size=settings.max_batch_size,
                max_wait_ms=settings.max_wait_ms,
            ),
            tokenizer=SimulatedTokenizer(faults=True),
            engine=engine,
            settler=settler,
            tally=tally,
            clock=time.monotonic,
        )
        self.workers.append(worker)
        consumer = await self.broker.consume(
            settings.names.queues(), settings.prefetch, batcher_id, worker.deliver
        )
        settler.attach(consumer)
        working = asyncio.create_task(worker.run())
        try:
            yield worker, engine, consumer, working
        finally:
            worker.stop()
            await consumer.stop()
            await asyncio.wait([working], timeout=5)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await consumer.close()
            await engine.stop()


MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture(params=["streams", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest, valkey_url: str) -> str:
    """URL of each broker in turn; not asynchronous, since a server is started on a loop of its own."""
    url: str = request.getfixturevalue("rabbit_url") if request.param == "rabbitmq" else valkey_url
    return url


@pytest.fixture
async def make_rig(broker_url: str, valkey_url: str, namespace: str) -> AsyncIterator[MakeRig]:
    """Make deployments with given settings, on either broker."""
    opened: list[tuple[Broker, Any]] = []

    async def make(**flags: str) -> Rig:
        settings, _ = load(
            {
                "INFERQ_REDIS_URL": valkey_url,
                "INFERQ_BROKER_URL": broker_url,
                "INFERQ_NAMESPACE": namespace,
                "INFERQ_MODEL": MODEL,
            },
            flags,
        )
        redis = connect(valkey_url, reply_timeout_s=5.0)
        store = Store(redis, settings.names, job_ttl_s=600, result_ttl_s=600)
        broker = make_broker(settings, store)
        await broker.open()
        opened.append((broker, redis))
        return Rig(settings=settings, store=store, broker=broker)

    yield make
    for broker, redis in opened:
        await broker.close()
        await redis.aclose()


async def test_a_crashing_job_is_dead_lettered_and_hurts_nobody(make_rig: MakeRig) -> None:
    """A job that kills the engine is buried after its attempts, with its history; 100 neighbours are done."""
    rig = await make_rig()
    neighbours = await rig.submit_all([f"neighbour {n}" for n in range(50)])
    poison = await rig.submit("[[crash]] now")
    neighbours += await rig.submit_all([f"neighbour {n}" for n in range(50, 100)])
    async with rig.batcher():
        records = await rig.ended(neighbours)
        assert {record.status for record in records} == {Status.DONE}
        (record,) = await rig.ended([poison])
        assert record.status is Status.FAILED
        assert record.error is not None
        assert record.error.code is ErrorCode.ENGINE_CRASHED
        (entry,) = await eventually(lambda: rig.broker.dead(10), what="the dead letter is kept")
    assert entry.letter.job_id == poison
    assert entry.letter.reason is ErrorCode.ENGINE_CRASHED
    assert [charge["attempt"] for charge in entry.letter.history] == [1, 2, 3]
    assert b"[[crash]]" in entry.letter.body
    assert await rig.broker.depth() == 0


async def test_a_hanging_job_is_stopped_and_buried(make_rig: MakeRig) -> None:
    """A job that hangs the engine is ended by the timeout, charged alone, and buried; its batch mates are done."""
    rig = await make_rig(engine_timeout_ms="400", max_attempts="2")
    jobs = await rig.submit_all(["one", "[[hang]]", "two", "three"])
    async with rig.batcher():
        records = await rig.ended(jobs)
    assert [record.status for record in records] == [Status.DONE, Status.FAILED, Status.DONE, Status.DONE]
    assert records[1].error is not None
    assert records[1].error.code is ErrorCode.ENGINE_TIMEOUT
    assert await rig.broker.dead_count() == 1


async def test_a_raising_job_fails_at_once_and_alone(make_rig: MakeRig) -> None:
    """A batch that raises is split by halves; the culprit fails with one start and no dead letter."""
    rig = await make_rig()
    jobs = await rig.submit_all(
        [f"mate {n}" for n in range(7)] + ["[[raise]]"] + [f"mate {n}" for n in range(8)]
    )
    async with rig.batcher() as (_, engine, *_rest):
        records = await rig.ended(jobs)
        assert engine.restarts == 0
    failed = [record for record in records if record.status is not Status.DONE]
    assert [record.job_id for record in failed] == [jobs[7]]
    assert failed[0].error is not None
    assert failed[0].error.code is ErrorCode.INFERENCE_FAILED
    assert failed[0].attempt == 1
    assert await rig.broker.dead_count() == 0


async def test_what_cannot_be_run_is_buried_with_its_reason(make_rig: MakeRig) -> None:
    """Nonsense, another version and an input that the model refuses end in the dead queue, and the loop goes on."""
    rig = await make_rig()
    refused = await rig.submit("[[refuse]]")
    queue = rig.settings.names.queue("simulated")
    for job_id, body in (("a" * 32, b"\xff nonsense"), ("b" * 32, b'{"v":99,"job_id":"' + b"b" * 32 + b'"}')):
        job = Job(job_id=job_id, model="simulated", text="-", created_ms=int(wall_ms()))
        await rig.broker.accept(Origin(job=job, queue=queue, message=body))
    good = await rig.submit("good")
    async with rig.batcher():
        (record,) = await rig.ended([good])
        assert record.status is Status.DONE

        async def buried() -> list[Any] | None:
            entries = await rig.broker.dead(10)
            return entries if len(entries) == 3 else None

        entries = await eventually(buried, what="three dead letters")
        (wrong_version,) = await rig.ended(["b" * 32])
    reasons = sorted(entry.letter.reason for entry in entries)
    assert reasons == [ErrorCode.INVALID_INPUT, ErrorCode.UNDECODABLE, ErrorCode.UNDECODABLE]
    assert wrong_version.error is not None
    assert wrong_version.error.code is ErrorCode.UNDECODABLE
    assert "version 99" in wrong_version.error.detail
    (record,) = await rig.ended([refused])
    assert record.error is not None
    assert record.error.code is ErrorCode.INVALID_INPUT
    assert record.attempt == 0


async def test_the_next_batch_fills_while_the_engine_is_busy(make_rig: MakeRig) -> None:
    """Jobs that arrive during a run form one batch after it, and a record explains its batch."""
    rig = await make_rig()
    async with rig.batcher("simulated:400,0") as (worker, *_):
        first = await rig.submit("first")
        await eventually(lambda: worker.held, what="the first job has arrived")
        later = await rig.submit_all([f"later {n}" for n in range(9)])
        records = await rig.ended([first, *later])
    sizes = [record.batch.size for record in records if record.batch is not None]
    assert sizes == [1, *[9] * 9]
    timings = records[1].timings_ms
    assert timings is not None
    assert timings.inference >= 400
    assert timings.batch_wait > 50
    assert timings.total >= timings.inference


async def test_fixed_waits_for_company_until_the_window_ends(make_rig: MakeRig) -> None:
    """A lone job under `fixed` runs when the window after its arrival ends, and says so."""
    rig = await make_rig(batch_policy="fixed", max_wait_ms="150")
    async with rig.batcher():
        (lonely,) = await rig.ended([await rig.submit("alone")])
        assert lonely.batch is not None
        assert lonely.batch.close_reason == "window"
        assert lonely.timings_ms is not None
        assert lonely.timings_ms.batch_wait >= 149
    patient = await make_rig(batch_policy="fixed", max_wait_ms="60000")
    async with patient.batcher():
        full = await patient.ended(await patient.submit_all([f"text {n}" for n in range(16)]))
    assert {record.batch.close_reason for record in full if record.batch} == {"full"}


async def test_interactive_jobs_run_before_bulk_ones(make_rig: MakeRig) -> None:
    """A bulk job that waits longer is still run after an interactive one."""
    rig = await make_rig(max_batch_size="1")
    async with rig.batcher("simulated:100,0") as (worker, *_):
        blocker = await rig.submit("blocker")
        await eventually(lambda: worker.held, what="the engine is busy")
        bulk = await rig.submit("bulk", priority=Priority.BULK)
        await eventually(lambda: bulk in worker.held, what="the bulk job has arrived")
        urgent = await rig.submit("urgent")
        records = await rig.ended([blocker, urgent, bulk])
    starts = [record.started_at for record in records]
    assert starts == sorted(starts)  # type: ignore[type-var]  # none is None once a job is done


async def test_a_job_that_ended_costs_no_compute(make_rig: MakeRig) -> None:
    """A cancelled job and one whose deadline passed leave the window without a run; their messages go."""
    rig = await make_rig()
    async with rig.batcher("simulated:300,0") as (worker, *_):
        await rig.submit("blocker")
        await eventually(lambda: worker.held, what="the engine is busy")
        cancelled = await rig.submit("cancelled")
        late = await rig.submit("late", deadline_ms=int(wall_ms()) + 50)
        assert (await rig.store.move(cancel(cancelled))).applied
        records = await rig.ended([cancelled, late])
        assert [record.status for record in records] == [Status.CANCELLED, Status.EXPIRED]
        assert [record.attempt for record in records] == [0, 0]
        await eventually(lambda: worker.idle, what="their messages are gone")
        assert worker.held == []


async def test_stopping_gives_back_what_was_not_run(make_rig: MakeRig) -> None:
    """A batcher that stops finishes its batch; the rest, begun or not, is done by another one at once."""
    rig = await make_rig(max_batch_size="2")
    async with rig.batcher("simulated:300,0") as (worker, _, consumer, working):
        jobs = await rig.submit_all([f"job {n}" for n in range(6)])
        await eventually(lambda: len(worker.held) == 6, what="all jobs are held")
        await consumer.stop()
        worker.stop()
        await asyncio.wait_for(working, 5)
        await worker.give_back()
        statuses = [(await rig.record(job)).status for job in jobs]
        assert statuses[0] is Status.DONE
        assert statuses[-1] is Status.QUEUED
        assert Status.RUNNING not in statuses
    async with rig.batcher():
        records = await rig.ended(jobs, timeout_s=10)
    assert {record.status for record in records} == {Status.DONE}
    # A job of the batch that was begun, and given back before it ran, is started twice.
    assert max(record.attempt for record in records) <= 2


async def test_a_full_batch_is_begun_while_another_computes(make_rig: MakeRig) -> None:
    """At saturation the engine does not wait for the store: the next full batch has been started already."""
    rig = await make_rig(max_batch_size="2")
    async with rig.batcher("simulated:400,0") as (worker, *_):
        first = await rig.submit("first")
        await eventually(lambda: worker.held, what="the engine is busy")
        waiting = await rig.submit_all(["one", "two", "three", "four"])

        async def begun() -> list[Status] | None:
            statuses = [(await rig.record(job)).status for job in waiting]
            return statuses if Status.RUNNING in statuses else None

        assert await eventually(begun, what="a batch is begun") == [
            Status.RUNNING,
            Status.RUNNING,
            Status.QUEUED,
            Status.QUEUED,
        ]
        assert (await rig.record(first)).status is Status.RUNNING
        records = await rig.ended([first, *waiting])
    assert {record.status for record in records} == {Status.DONE}
    assert [record.attempt for record in records] == [1] * 5


async def test_a_second_message_of_a_job_changes_nothing(make_rig: MakeRig) -> None:
    """A job whose message comes twice keeps its first answer, and both messages are settled."""
    rig = await make_rig()
    async with rig.batcher("simulated:200,0") as (worker, *_):
        job_id = await rig.submit("twice")
        item = await eventually(lambda: worker._running.get(job_id), what="the job is begun")
        (delivery,) = item.deliveries
        worker.deliver(delivery)
        (record,) = await rig.ended([job_id])
        worker.deliver(delivery)
        await eventually(lambda: worker.idle, what="everything is settled")
        assert await rig.record(job_id) == record
    assert await rig.broker.depth() == 0


async def test_an_engine_killed_while_idle_comes_back(make_rig: MakeRig) -> None:
    """Somebody kills the engine between batches: a new one is there for the next job, and nobody is charged."""
    rig = await make_rig()
    async with rig.batcher() as (_, engine, *_rest):
        assert engine.pid is not None
        before = engine.pid
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: engine.ready and engine.pid != before, what="a new engine is up")
        (record,) = await rig.ended([await rig.submit("after")])
    assert record.status is Status.DONE
    assert record.attempt == 1


async def test_a_job_that_crashed_an_engine_before_runs_alone(make_rig: MakeRig) -> None:
    """A job with a charge against it is set apart from its batch mates, whoever charged it."""
    rig = await make_rig()
    jobs = await rig.submit_all(["one", "suspect", "two"])
    await rig.store.apply([start(rig.origins[jobs[1]]), give_back(jobs[1], charge=True)])
    async with rig.batcher():
        records = await rig.ended(jobs)
    assert [record.status for record in records] == [Status.DONE] * 3
    sizes = {record.job_id: record.batch.size for record in records if record.batch is not None}
    assert sizes == {jobs[0]: 2, jobs[1]: 1, jobs[2]: 2}


async def test_a_lost_record_is_rebuilt_when_its_job_is_charged(make_rig: MakeRig) -> None:
    """Redis loses the record of a job that is about to crash the engine: the job still ends, with its error."""
    rig = await make_rig(max_attempts="2")
    async with rig.batcher("simulated:150,0,faults") as (worker, *_):
        blocker = await rig.submit("blocker")
        await eventually(lambda: worker.held, what="the engine is busy")
        poison = await rig.submit("[[crash]]")
        await eventually(lambda: poison in worker.held, what="the poison has arrived")
        await rig.store.redis.delete(rig.settings.names.job(poison))
        (done, failed) = await rig.ended([blocker, poison])
    assert done.status is Status.DONE
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ENGINE_CRASHED


async def test_a_job_older_than_the_job_ttl_is_expired_not_run(make_rig: MakeRig) -> None:
    """A message that waited longer than a job may live is expired when its turn comes, even if its record is gone."""
    rig = await make_rig()
    job_id = await rig.submit("old", created_ms=int(wall_ms()) - 700_000)
    await rig.store.redis.delete(rig.settings.names.job(job_id))
    async with rig.batcher():
        (record,) = await rig.ended([job_id])
    assert record.status is Status.EXPIRED
    assert record.attempt == 0


async def test_an_engine_that_cannot_come_back_is_given_up(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When restarts keep failing the batcher asks to be stopped, so that its jobs go to others."""
    monkeypatch.setattr("batcher.engine.RESTART_TRIES", 2)
    asked: list[int] = []
    monkeypatch.setattr("inferq.background.signal.raise_signal", asked.append)
    rig = await make_rig()
    async with rig.batcher() as (_, engine, *_rest):
        assert engine.pid is not None
        engine._load = Load(spec="gone", folder="/no/such/folder", device="cpu", precision="fp32", threads=1)
        os.kill(engine.pid, signal.SIGKILL)
        await eventually(lambda: asked, what="the process is asked to stop")
    assert asked == [signal.SIGTERM]


async def test_a_key_that_is_no_record_hurts_its_own_job_alone(make_rig: MakeRig) -> None:
    """Somebody overwrites a job's key in Redis: its message is buried, and its batch mates are done with one start."""
    rig = await make_rig()
    jobs = await rig.submit_all(["one", "overwritten", "two"])
    key = rig.settings.names.job(jobs[1])
    await rig.store.redis.delete(key)
    await rig.store.redis.set(key, "something else")
    async with rig.batcher() as (worker, *_):
        records = await rig.ended([jobs[0], jobs[2]])
        await eventually(lambda: worker.idle, what="everything is settled")
        (entry,) = await rig.broker.dead(10)
        await rig.ended([await rig.submit("later")])
    assert [record.attempt for record in records] == [1, 1]
    assert entry.letter.job_id == jobs[1]
    assert entry.letter.reason is ErrorCode.UNDECODABLE
    assert await rig.broker.depth() == 0
