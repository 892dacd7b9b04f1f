"""The benchmarks of batching: their tools against stubs, and tiny runs of each part against a pipeline."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port
from loadgen import (
    bareloops,
    batching,
    endurance,
    saturation,
)
from loadgen.batching import Bench
from loadgen.childwork import ask, said
from loadgen.deployment import deployed, sampled
from loadgen.openloop import offered
from loadgen.submitter import Order, Sent

SIMULATED = "simulated:4,1"


@asynccontextmanager
async def answering(*statuses: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve submits with these statuses in turn, again and again, each answer in two pieces; yields URL and bodies."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                bodies.append(await reader.readexactly(int(head.rpartition(b"Content-Length:")[2])))
                status = statuses[(len(bodies) - 1) % len(statuses)]
                body = json.dumps({"job_id": json.loads(bodies[-1])["text"]}).encode()
                answer = b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
                writer.write(answer[:25])
                await asyncio.sleep(0)
                writer.write(answer[25:])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The submitter is gone.
        finally:
            writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    try:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", bodies
    finally:
        server.close()
        await server.wait_closed()


def order(url: str, count: int, *, in_flight: int = 4096, every_s: float = 0.0) -> Order:
    """Order texts that are their own numbers."""
    return Order(
        url=url,
        bodies=[json.dumps({"text": str(number)}) for number in range(count)],
        due_s=[number * every_s for number in range(count)],
        in_flight=in_flight,
    )


@pytest.mark.parametrize("in_flight", [4, 4096])
async def test_a_submitter_sends_what_it_was_told(in_flight: int) -> None:
    """Each body once, each answer to its own request, refusals by status."""
    async with answering(202, 202, 503) as (url, bodies):
        sent = await ask("loadgen.submitter", order(url, 90, in_flight=in_flight), Sent, within_s=30)
    assert sorted(json.loads(body)["text"] for body in bodies) == sorted(map(str, range(90)))
    assert sent.jobs == {number: str(number) for number in sent.jobs}
    assert (len(sent.jobs), sent.refused, sent.offered) == (60, {"503": 30}, 90)
    assert sent.cpu_s > 0


async def test_a_submitter_keeps_to_its_schedule() -> None:
    """The last request goes out when it is due, and not before."""
    async with answering(202) as (url, _):
        sent = await ask("loadgen.submitter", order(url, 11, every_s=0.02), Sent, within_s=30)
    assert 0.2 <= sent.seconds < 5
    assert sent.lag_p99_s >= 0


async def test_a_submitter_without_a_server_says_so() -> None:
    """One line, as an error that a benchmark reports."""
    with pytest.raises(ConnectionError, match=r"submitter: .*refused"):
        await ask("loadgen.submitter", order(f"http://{LOOPBACK}:{free_port()}", 1), Sent, within_s=30)


async def test_work_ends_in_bounded_time() -> None:
    """What hangs is killed, and what fails says its last line."""
    with pytest.raises(ConnectionError, match=r"within 0\.3 s"):
        await said([sys.executable, "-c", "input()\nimport time\ntime.sleep(60)"], b"\n", within_s=0.3)
    with pytest.raises(ConnectionError, match="the reason"):
        await said([sys.executable, "-c", "raise SystemExit('first\\nthe reason')"], within_s=30)
    with pytest.raises(ConnectionError, match="status 3"):
        await said([sys.executable, "-c", "raise SystemExit(3)"], within_s=30)


def test_samples_of_a_metrics_page() -> None:
    """By name, and by the values of their labels."""
    page = '# TYPE a counter\na_total{kind="x"} 2.0\n# TYPE b gauge\nb 1.5\n'
    assert sampled(page) == {"a_total{x}": 2.0, "b": 1.5}


async def test_bare_loops_of_the_built_in_model() -> None:
    """Every loop does something; sorting pads less than order of arrival, and dynamic programming less than that."""
    loops = (await saturation.bare("builtin", seconds=0.1)).loops
    assert set(loops) == set(bareloops.NAMES)
    assert all(loop.texts_per_s > 0 for loop in loops.values())
    shares = [
        loops[name].useful_share
        for name in (bareloops.ARRIVAL, bareloops.SORTED, bareloops.CUT, bareloops.ALONE)
    ]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


async def test_bare_loops_need_a_model() -> None:
    """A simulated one has none, and one that is not there is named."""
    for model, says in ((SIMULATED, "no bare loop"), ("/nowhere/model", "/nowhere/model")):
        with pytest.raises(ConnectionError, match=says):
            await saturation.bare(model, seconds=0.1)


async def test_a_refused_job_is_none_of_the_records() -> None:
    """It was offered, and has no record."""
    async with deployed("streams", model=SIMULATED, queue_limit="1") as deployment:
        run = await offered(deployment, rate=400, seconds=0.5, seed=1)
    assert None in run.records
    assert any(record is not None for record in run.records)


async def test_endurance_in_small() -> None:
    """The engine process answers every shape, and its memory is looked at along the way."""
    found = await endurance.endured("builtin", batches=100, most_s=60, say=lambda text: None)
    assert (found.batches, len(found.levels_mb)) == (100, 2)
    assert min(found.levels_mb) > 20
    cut = await endurance.endured("builtin", batches=100, most_s=0.0, say=lambda text: None)
    assert cut.batches == 0


async def test_a_part_that_fails_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in one line, and the whole is not well; the next part runs."""
    ran: list[str] = []

    async def fails(bench: Bench) -> None:
        raise ExceptionGroup("tasks", [OperatorError("no disk\nmore")])

    async def works(bench: Bench) -> None:
        ran.append("works")

    monkeypatch.setattr(batching, "PARTS", {"saturation": fails, "cost": works, "light": works})
    heard: list[str] = []
    bench = Bench(
        models=batching.models("folder"),
        brokers=[],
        effort=batching.QUICK,
        say=heard.append,
        show=lambda figures: None,
    )
    assert not await bench.run(["cost", "saturation"])
    assert (ran, heard) == (["works"], ["saturation could not be measured: no disk"])
    assert list(bench.models) == ["full-size", "builtin"]


def test_an_order_travels_as_json() -> None:
    """What a benchmark orders is what the submitter reads."""
    given = order("http://x", 2)
    assert msgspec.json.decode(msgspec.json.encode(given), type=Order) == given
