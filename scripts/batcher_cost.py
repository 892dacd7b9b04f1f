"""What a job costs a batcher's process in CPU, its engine excluded, and which step it goes to.

A worker in this process meets a queue that is full from the start, with a model that takes no time, so its batches are
full. The figure comes from a round without clocks in it. The split comes from a second round in which the steps are
wrapped with a clock, whose own time is taken off; its shares are laid on the first round's figure. Servers and
engine are processes of their own; what the Valkey spends on a job in the same time is told as well.

    python -m scripts.batcher_cost [--broker streams|rabbitmq] [--jobs 10000] [--rounds 3] [--size 16] [--json]
"""

import argparse
import asyncio
import inspect
import json
import logging
import statistics
import sys
import tempfile
import time
import types
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import structlog
import uvloop

from batcher.assembly import Assembly, assemble, make_engine
from batcher.engine import Engine
from batcher.engine_link import EngineLink
from batcher.intake import Intake
from batcher.planner import Planner
from batcher.settling import Settler
from batcher.tally import Tally
from batcher.tokenizer import SimulatedTokenizer
from batcher.worker import Worker
from inferq.broker import Broker, make_broker
from inferq.broker.rabbit_consumer import RabbitConsumer
from inferq.broker.stream_consumer import StreamConsumer
from inferq.connection import Connection
from inferq.jobs import Job
from inferq.messages import encode_job
from inferq.process import process_id
from inferq.rabbitnode import PrivateRabbit
from inferq.redis import Client, connect
from inferq.settings import load
from inferq.steps import Origin
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from inferq.valkey import EmbeddedValkey
from loadgen.texts import dealt

FILL_AT_ONCE: Final = 200
CALLS: Final = 20_000
ROUND_S: Final = 300.0
REST: Final = "loop and rest"

# What is wrapped, and the step that it counts for.
STEPS: Final[tuple[tuple[type, str, str], ...]] = (
    (StreamConsumer, "_read", "consume"),
    (StreamConsumer, "_take", "consume"),
    (StreamConsumer, "ack", "ack"),
    (RabbitConsumer, "ack", "ack"),
    (Worker, "deliver", "take in"),
    (Intake, "read", "decode"),
    (Intake, "admit", "take in"),
    (SimulatedTokenizer, "encode", "tokenise"),
    (Worker, "run", "plan"),
    (Planner, "next", "plan"),
    (Planner, "grant", "plan"),
    (Settler, "start", "start"),
    (Settler, "finish", "finish"),
    (Engine, "run", "engine's link"),
    (EngineLink, "_take", "engine's link"),
    (Tally, "ran", "count"),
    (Connection, "_flush", "link to Redis"),
    (Connection, "data_received", "link to Redis"),
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """CPU of one job in microseconds: the batcher's process, the Valkey's; the jobs of a batch; each step's CPU."""

    cpu_us: float
    valkey_us: float
    mean_batch: float
    split: dict[str, float] = field(default_factory=dict)


class Ledger:
    """Counts the process's CPU for the innermost step that runs, less what the counting itself takes."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._open = [REST]
        self._since = time.process_time()
        self._outside_s = self._inside_s = 0.0
        self._calibrate()

    def enter(self, step: str) -> None:
        """Begin a step."""
        self._book(self._outside_s)
        self._open.append(step)

    def leave(self) -> None:
        """End the innermost step."""
        self._book(self._inside_s)
        self._open.pop()

    def clear(self) -> None:
        """Begin anew."""
        self.spent.clear()
        self._since = time.process_time()

    def _book(self, own_s: float) -> None:
        now = time.process_time()
        self.spent[self._open[-1]] += now - self._since - own_s
        self._since = now

    def _calibrate(self) -> None:
        def nothing() -> None:
            pass

        timed = self.timed(nothing, "nothing")
        self.clear()
        for _ in range(CALLS):
            timed()
        self._inside_s, self._outside_s = self.spent["nothing"] / CALLS, self.spent[REST] / CALLS

    def timed(self, call: Callable[..., Any], step: str) -> Callable[..., Any]:
        """Wrap a function or a coroutine function."""
        if inspect.iscoroutinefunction(call):

            @wraps(call)
            async def timed_coroutine(*args: Any, **options: Any) -> Any:
                return await self._drive(call(*args, **options), step)

            return timed_coroutine

        @wraps(call)
        def timed_call(*args: Any, **options: Any) -> Any:
            self.enter(step)
            try:
                return call(*args, **options)
            finally:
                self.leave()

        return timed_call

    @types.coroutine
    def _drive(self, work: Coroutine[Any, Any, Any], step: str) -> Generator[Any, Any, Any]:
        """Run a coroutine from one wait to the next."""
        go, value = work.send, None
        while True:
            self.enter(step)
            try:
                waited = go(value)
            except StopIteration as stop:
                return stop.value
            finally:
                self.leave()
            try:
                go, value = work.send, (yield waited)
            except BaseException as error:  # whatever it is, it is the coroutine's
                go, value = work.throw, error


async def measured(broker: str, *, jobs: int, rounds: int, size: int, cache: str) -> Cost:
    """Return the medians of so many rounds, and the split of one more."""
    plain = [await _round(broker, jobs=jobs, size=size, cache=cache, ledger=None) for _ in range(rounds)]
    ledger = Ledger()
    with ExitStack() as stack:
        for owner, name, step in STEPS:
            stack.enter_context(patch.object(owner, name, ledger.timed(getattr(owner, name), step)))
        await _round(broker, jobs=jobs, size=size, cache=cache, ledger=ledger)
    cpu_us = statistics.median(one.cpu_us for one in plain)
    total = sum(ledger.spent.values())
    return Cost(
        cpu_us=cpu_us,
        valkey_us=statistics.median(one.valkey_us for one in plain),
        mean_batch=statistics.median(one.mean_batch for one in plain),
        split={
            step: spent / total * cpu_us
            for step, spent in sorted(ledger.spent.items(), key=lambda pair: -pair[1])
        },
    )


async def _round(kind: str, *, jobs: int, size: int, cache: str, ledger: Ledger | None) -> Cost:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferq-cost-")))
        valkey = EmbeddedValkey(folder / "valkey")
        stack.push_async_callback(valkey.stop)
        await valkey.start()
        url = valkey.url
        if kind == "rabbitmq":
            node = PrivateRabbit(folder / "rabbit")
            stack.push_async_callback(node.stop)
            await node.start()
            url = node.url
        settings, _ = load(
            {
                "INFERQ_REDIS_URL": valkey.url,
                "INFERQ_BROKER_URL": url,
                "INFERQ_MODEL": "simulated:0,0",
                "INFERQ_QUEUE_LIMIT": str(2 * jobs),
                "INFERQ_CACHE": cache,
                "INFERQ_MAX_BATCH_SIZE": str(size),
            }
        )
        redis = connect(valkey.url, reply_timeout_s=30.0)
        stack.push_async_callback(redis.aclose)
        store = Store(redis, settings.names, job_ttl_s=3600, result_ttl_s=600)
        broker = make_broker(settings, store)
        stack.push_async_callback(broker.close)
        await broker.open()
        await _fill(broker, settings.names.queue("simulated"), jobs)
        tokenizer, tally = SimulatedTokenizer(faults=False), Tally(Metrics())
        engine = make_engine(settings, None, tokenizer)
        stack.push_async_callback(engine.stop)
        batcher_id = process_id()
        batcher = await assemble(settings, engine, tokenizer, store, tally, batcher_id=batcher_id)
        consumer = await broker.consume(
            settings.names.queues(), settings.prefetch, batcher_id, batcher.worker.deliver
        )
        stack.push_async_callback(consumer.close)
        batcher.worker.attach(consumer)
        valkey_s = await _cpu_s(redis)
        if ledger is not None:
            ledger.clear()
        begun = time.process_time()
        async with _running(batcher), asyncio.timeout(ROUND_S):
            while tally.totals.jobs < jobs or not batcher.worker.idle:  # noqa: ASYNC110  # nobody else tells
                await asyncio.sleep(0.02)
            cpu_s = time.process_time() - begun
        return Cost(
            cpu_us=cpu_s / jobs * 1e6,
            valkey_us=(await _cpu_s(redis) - valkey_s) / jobs * 1e6,
            mean_batch=tally.totals.jobs / tally.totals.count,
        )


@asynccontextmanager
async def _running(batcher: Assembly) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(batcher.worker.run(), name="worker")
        try:
            yield
        finally:
            batcher.worker.stop()


async def _fill(broker: Broker, queue: str, jobs: int) -> None:
    texts = list(dealt(jobs))
    for first in range(0, jobs, FILL_AT_ONCE):
        made = [
            Job(job_id=f"{number:032x}", model="simulated", text=text, created_ms=int(wall_ms()))
            for number, text in enumerate(texts[first : first + FILL_AT_ONCE], start=first)
        ]
        await asyncio.gather(
            *(broker.accept(Origin(job=job, queue=queue, message=encode_job(job))) for job in made)
        )


async def _cpu_s(redis: Client) -> float:
    info: Any = await redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="CPU of a batcher's process per job, and its split.")
    parser.add_argument("--broker", choices=["streams", "rabbitmq"], action="append")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=16, help="most jobs of a batch")
    parser.add_argument("--cache", choices=["off", "local"], default="off")
    parser.add_argument("--json", action="store_true", help="one object per broker, a line each")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for kind in asked.broker or ["streams", "rabbitmq"]:
        cost = uvloop.run(
            measured(kind, jobs=asked.jobs, rounds=asked.rounds, size=asked.size, cache=asked.cache)
        )
        if asked.json:
            figures = {"broker": kind, "jobs": asked.jobs, "cpu_us": cost.cpu_us, "split_us": cost.split}
            more = {"valkey_us": cost.valkey_us, "mean_batch": cost.mean_batch}
            sys.stdout.write(json.dumps(figures | more) + "\n")
            continue
        sys.stdout.write(
            f"{kind}: {cost.cpu_us:.0f} us of CPU a job, {cost.mean_batch:.1f} jobs a batch,"
            f" the Valkey {cost.valkey_us:.0f} us ({asked.jobs} jobs, median of {asked.rounds})\n"
        )
        for step, spent_us in cost.split.items():
            sys.stdout.write(f"  {step:<14}{spent_us:6.1f} us\n")


if __name__ == "__main__":
    main()
