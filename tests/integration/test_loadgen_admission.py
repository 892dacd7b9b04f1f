"""The benchmarks of admission: generators and baselines by themselves, and tiny runs of each part."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aio_pika
import pytest

from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port
from inferq.redis import connect
from loadgen import admission
from loadgen.admission import Bench
from loadgen.baselines import stock
from loadgen.childwork import ask
from loadgen.client import Client
from loadgen.closedloop import Closed, Rate
from loadgen.cputime import CpuMeter
from loadgen.publishing import Published, Publishing
from loadgen.servedapp import served
from loadgen.timedload import Seen, Timed


@asynccontextmanager
async def answering(answers: Sequence[bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve every request the next of these, again and again, in two pieces; yields URL and requests.

    An empty one closes the connection.
    """
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = await reader.readexactly(int(head.rpartition(b"Content-Length:")[2]))
                requests.append(head + body)
                answer = answers[(len(requests) - 1) % len(answers)]
                if not answer:
                    return
                writer.write(answer[:25])
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(answer[25:])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The generator is gone.
        finally:
            writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    try:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()
        await server.wait_closed()


def answer(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    """Return an answer."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_a_closed_loop_counts_what_is_answered() -> None:
    """2xx alone are accepted, others are counted by status; texts differ, and the key goes along."""
    async with answering([answer(202), answer(202), answer(503)]) as (url, requests):
        order = Closed(
            url=url, key="k", seconds=0.3, warm_s=0.05, connections=4, texts=5_000, pids={"me": os.getpid()}
        )
        found = await ask("loadgen.closedloop", order, Rate, within_s=30)
    assert found.accepted == found.jobs > 0
    assert set(found.refused) == {"503"}
    assert found.accepted == pytest.approx(2 * found.refused["503"], abs=8)
    assert found.accepted + found.refused["503"] < len(requests)
    assert found.seconds >= 0.3
    assert found.own_cpu_s >= 0
    assert found.cpu_s["me"] > 0
    assert all(b"\r\nAuthorization: Bearer k\r\n" in one for one in requests)
    bodies = [one.partition(b"\r\n\r\n")[2] for one in requests[:5_000]]
    assert len(set(bodies)) == len(bodies)


async def test_a_closed_loop_that_asks_for_results_counts_results() -> None:
    """A 202 is none: it says that the server did not wait until the end."""
    async with answering([answer(200), answer(202)]) as (url, requests):
        order = Closed(
            url=url, prefer="wait=60", expect=200, seconds=0.2, warm_s=0.0, connections=2, texts=400
        )
        found = await ask("loadgen.closedloop", order, Rate, within_s=30)
    assert found.accepted == found.jobs > 0
    assert found.refused["202"] == pytest.approx(found.accepted, abs=4)
    assert all(b"\r\nPrefer: wait=60\r\n" in one for one in requests)


async def test_a_closed_loop_counts_the_jobs_of_batches() -> None:
    """As many as the answer says were accepted, which may be fewer than were sent."""
    async with answering([answer(202, b'{"jobs":[],"accepted":3,"refused":1}')]) as (url, requests):
        order = Closed(url=url, path="/b", jobs=4, seconds=0.2, warm_s=0.0, connections=2, texts=400)
        found = await ask("loadgen.closedloop", order, Rate, within_s=30)
    assert found.jobs == 3 * found.accepted > 0
    assert requests[0].startswith(b"POST /b HTTP/1.1\r\n")
    assert len(json.loads(requests[0].partition(b"\r\n\r\n")[2])["inputs"]) == 4


async def test_an_open_loop_times_every_answer() -> None:
    """In the order that they were due, with the refusals that do not say when to come back."""
    answers = [answer(202), answer(503, b"", "Retry-After: 1"), answer(503)]
    async with answering(answers) as (url, requests):
        order = Timed(url=url, rate=300.0, seconds=0.4, connections=2, key="k", pids={"me": os.getpid()})
        seen = await ask("loadgen.timedload", order, Seen, within_s=30)
    assert len(requests) == len(seen.statuses) == len(seen.waits_ms) == 120
    assert (seen.count(202), seen.count(503), seen.hurried) == (40, 80, 40)
    assert all(wait > 0 for wait in seen.waits_ms)
    assert seen.seconds >= 119 / 300, "the last one is due then"
    assert seen.lag_p99_ms >= 0
    assert "202: 40" in seen.words()
    assert b"\r\nAuthorization: Bearer k\r\n" in requests[0]


async def test_a_slow_answer_counts_from_when_it_was_due() -> None:
    """With one connection the requests behind a stall wait for it, and their times say so."""
    stalled = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(20):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.rpartition(b"Content-Length:")[2]))
            if number == 0:
                asyncio.get_running_loop().call_later(0.3, stalled.set)
                await stalled.wait()
            writer.write(answer(202))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    async with server:
        url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        order = Timed(url=url, rate=100.0, seconds=0.2, connections=1)
        seen = await ask("loadgen.timedload", order, Seen, within_s=30)
    assert seen.count(202) == 20
    assert seen.waits_ms[0] >= 290
    assert seen.waits_ms[10] >= 190


@pytest.mark.parametrize("module", ["loadgen.closedloop", "loadgen.timedload"])
@pytest.mark.parametrize(
    ("answers", "says"), [([b""], "closed a connection"), ([b"SSH-2.0" + b"x" * 30], "speak HTTP")]
)
async def test_a_generator_says_why_it_gives_up(module: str, answers: list[bytes], says: str) -> None:
    """In one line: a server that goes away, and one that speaks something else."""
    async with answering(answers) as (url, _):
        order = (
            Closed(url=url, seconds=0.2, warm_s=0.0, texts=100)
            if module == "loadgen.closedloop"
            else Timed(url=url, rate=50.0, seconds=0.2)
        )
        kind: type[Rate | Seen] = Rate if module == "loadgen.closedloop" else Seen
        with pytest.raises(ConnectionError, match=says):
            await ask(module, order, kind, within_s=30)


async def test_generators_without_a_server_say_so(valkey_url: str) -> None:
    """As an error that a benchmark reports."""
    url = f"http://{LOOPBACK}:{free_port()}"
    with pytest.raises(ConnectionError, match=r"closed loop: .*refused"):
        await ask("loadgen.closedloop", Closed(url=url, texts=100), Rate, within_s=30)
    with pytest.raises(ConnectionError, match=r"open loop: .*refused"):
        await ask("loadgen.timedload", Timed(url=url, rate=10.0, seconds=0.1), Seen, within_s=30)
    order = Publishing(url=f"amqp://{LOOPBACK}:{free_port()}", redis_url=valkey_url, by="ours", jobs=1)
    with pytest.raises(ConnectionError, match="publishing: the broker amqp:"):
        await ask("loadgen.publishing", order, Published, within_s=30)


def test_cpu_is_counted_by_process() -> None:
    """Since the count began; one that is gone used nothing, and all of the machine is more than one process."""
    meter = CpuMeter({"me": os.getpid(), "gone": 2**22 + 1})
    while (used := meter.seconds())["me"] < 0.05:
        sum(range(10_000))
    assert used["gone"] == 0
    assert meter.everything_s() > 0
    meter.restart()
    assert meter.seconds()["me"] < 0.05


async def checked(url: str) -> str:
    """Submit well and badly to a baseline and return the id of the job that it took."""
    client = Client(url)
    try:
        taken = await client.request("POST", "/v1/infer", b'{"text":"a fine film"}')
        for body in (b"", b"{}", b'{"text":""}', b'{"text":1}', b'{"text":"a","more":1}'):
            assert (await client.request("POST", "/v1/infer", body)).status == 400
        assert (await client.request("GET", "/v1/infer")).status == 405
        assert (await client.request("POST", "/", b"{}")).status == 404
    finally:
        await client.close()
    assert taken.status == 202
    assert taken.headers["content-type"] == "application/json"
    found = json.loads(taken.body)
    assert found == {
        "job_id": found["job_id"],
        "status": "queued",
        "status_url": f"/v1/jobs/{found['job_id']}",
        "stream_url": f"ws://127.0.0.1:8081/ws/jobs/{found['job_id']}",
    }
    return str(found["job_id"])


async def test_the_bare_app_answers() -> None:
    """202 in our shape for what is well-formed, 400 for anything else."""
    async with served("loadgen.baselines.bare") as app:
        assert len(await checked(app.url)) == 32


async def test_the_stock_app_keeps_what_it_takes(valkey_url: str, rabbit_url: str) -> None:
    """The record is in Redis and the message in a durable quorum queue once the answer is there."""
    environ = {stock.REDIS_VARIABLE: valkey_url, stock.BROKER_VARIABLE: rabbit_url}
    async with served("loadgen.baselines.stock", environ) as app:
        job_id = await checked(app.url)
    redis = connect(valkey_url)
    try:
        assert await redis.hget(f"stock:job:{job_id}", "text") == b"a fine film"
    finally:
        await redis.delete(f"stock:job:{job_id}")
        await redis.aclose()
    connection = await aio_pika.connect(rabbit_url)
    async with connection:
        channel = await connection.channel()
        # Declared with other arguments this would be refused.
        queue = await channel.declare_queue(stock.QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        message = await queue.get()
        assert json.loads(message.body)["job_id"] == message.message_id == job_id
        assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
        await message.ack()
        await channel.queue_delete(stock.QUEUE)
        await channel.exchange_delete(stock.EXCHANGE)


async def test_an_app_that_does_not_start_says_why() -> None:
    """With its last line."""
    with pytest.raises(OperatorError, match="does not listen"):
        async with served("loadgen.baselines.nothing"):
            pass


async def test_a_part_that_fails_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in one line, and the whole is not well; what is of RabbitMQ alone says so without it."""
    ran: list[str] = []

    async def fails(bench: Bench) -> None:
        raise ExceptionGroup("tasks", [OperatorError("no disk\nmore")])

    async def works(bench: Bench) -> None:
        ran.append("works")

    monkeypatch.setattr(
        admission, "PARTS", {"accepted": fails, "publish": Bench.publish, "spike": works, "batch": works}
    )
    heard: list[str] = []
    bench = Bench(brokers=["streams"], effort=admission.QUICK, say=heard.append, show=lambda figures: None)
    assert not await bench.run(["publish", "batch", "accepted"])
    assert ran == ["works"]
    assert heard == ["accepted could not be measured: no disk", "publish is of RabbitMQ alone"]
