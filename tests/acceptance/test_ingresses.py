"""Several ingresses on one port: seen as one from outside, and one of them can die without a gap."""

import asyncio
import os
import re
import signal
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from inferq.childprocess import process_identity
from inferq.cli.leftovers import remove_namespace
from inferq.heartbeats import IngressBeat, living
from inferq.local import COUNTS, LocalPipeline
from inferq.ports import LOOPBACK, free_port
from inferq.redis import connect
from inferq.settings import load
from inferq.store import wall_ms
from inferq.summing import SUMMED_IN
from loadgen.deployment import sampled
from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import command
from tests.jobload import JobLoad
from tests.support import eventually

JOBS: Final = 2_000
AT_ONCE: Final = 64
KILL_AFTER: Final = 500
QUEUED: Final = "inferq_jobs_total{queued}"


@pytest.fixture
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path, namespace: str
) -> AsyncIterator[LocalPipeline]:
    """A pipeline with two ingresses, on Streams or, as a parameter, on the shared RabbitMQ."""
    on_rabbit = getattr(request, "param", "streams") == "rabbitmq"
    settings, _ = load(
        {
            "INFERQ_MODEL": "simulated:2,0.5",
            "INFERQ_INGRESSES": "2",
            "INFERQ_NAMESPACE": namespace,
            "INFERQ_BROKER_URL": request.getfixturevalue("rabbit_url") if on_rabbit else "",
        }
    )
    pipeline = LocalPipeline(settings, state_dir=tmp_path, ports_auto=True)
    await pipeline.start()
    left: list[str] = []
    try:
        yield pipeline
    finally:
        await pipeline.stop()
        await remove_namespace(settings, left.append)
    assert left == []


async def test_from_outside_they_are_one(start_pipeline: StartPipeline) -> None:
    """One address for the API and one for metrics; doctor examines each, stats sums them, all end in order."""
    up = start_pipeline("--ingresses", "2")
    assert set(up.services) == {"ingress-1", "ingress-2", "notifier", "batcher-1"}
    assert up.out.count("API  ") == 1
    assert f"API        {up.api}\n" in up.out
    assert re.findall(r"metrics +(\S+)  \(ingress.*\)", up.out) == [f"{up.api}/metrics"]
    job_id = await up.submit("one address")
    assert (await up.pushed(job_id))["status"] == "done"
    doctor = await up.command("doctor")
    assert doctor.code == 0, doctor.out
    assert {"ok     ingress-1 ", "ok     ingress-2 "} <= {line[:17] for line in doctor.out.splitlines()}
    assert (await up.command("stats")).code == 0
    assert up.stop() == 0
    stops = re.findall(r'"event": "(\w+)\.stopped"', up.err)
    assert stops == ["ingress", "ingress", "batcher", "notifier"]


def test_only_ingresses_know_of_the_folder(
    start_pipeline: StartPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another program's folder, or ours in another service, would mix up what is summed; it is its owner's alone."""
    monkeypatch.setenv(SUMMED_IN, str(tmp_path))
    up = start_pipeline("--ingresses", "2")
    told = {name: psutil.Process(up.pid(name)).environ().get(SUMMED_IN) for name in up.services}
    folder = up.state_dir / COUNTS
    assert told == {"ingress-1": str(folder), "ingress-2": str(folder), "notifier": None, "batcher-1": None}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(tmp_path.glob("*.db"))


async def test_a_request_in_progress_at_the_stop_finishes(start_pipeline: StartPipeline) -> None:
    """Once nobody listens any more, what had begun before still has its answer."""
    up = start_pipeline("--ingresses", "2")
    url = httpx.URL(up.api)
    body = b'{"text": "begun before the stop"}'
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /v1/infer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    # The server asks for the body once the request has come as far as the endpoint.
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    up.signal(signal.SIGINT)
    await eventually(lambda: _refused(url), what="the end of listening")
    writer.write(body)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 202 ")
    writer.close()
    await writer.wait_closed()
    assert up.wait() == 0


async def test_both_take_jobs_and_a_death_costs_no_count(pair: LocalPipeline) -> None:
    """Whoever is asked tells of all; when one was killed the other serves, and the count goes on from where it was."""
    await _submit(pair, 40)
    await eventually(lambda: _arriving(pair, "ingress-1", "ingress-2"), what="jobs at both")
    assert await _counted(pair) == 40
    killed = pair.children["ingress-1"].pid or 0
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: process_identity(killed) is None, what="its end")
    await _submit(pair, 40)
    assert await _counted(pair) == 80
    await eventually(lambda: pair.children["ingress-1"].restarts == 1, 30, what="another life")
    await eventually(lambda: _takes_jobs_again(pair), 30, what="jobs at the new one")
    assert pair.children["ingress-2"].restarts == 0
    before = await _counted(pair)
    assert before > 80
    assert await _counted(pair) == before


@pytest.mark.timeout(240)
@pytest.mark.parametrize("pair", ["streams", "rabbitmq"], indirect=True)
async def test_one_dies_under_load(pair: LocalPipeline) -> None:
    """Only requests under way at the dead one fail, once; the others are served, and every accepted job is done."""
    load_ = JobLoad(url=lambda: pair.urls.api)
    running = asyncio.create_task(
        load_.run([f"text number {n}" for n in range(JOBS)], at_once=AT_ONCE, within_s=180)
    )
    counts = []
    try:
        await eventually(lambda: load_.accepted >= KILL_AFTER, 60, what="the load is under way")
        assert load_.refused == 0
        counts.append(await _counted(pair))
        os.kill(pair.children["ingress-2"].pid or 0, signal.SIGKILL)
        while not running.done():
            counts.append(await _counted(pair))
            await asyncio.wait({running}, timeout=0.2)
        await running
    finally:
        running.cancel()
    await eventually(lambda: pair.children["ingress-2"].restarts == 1, 30, what="another life")
    counts.append(await _counted(pair))
    assert counts == sorted(counts)
    assert load_.accepted == JOBS
    # While a single ingress comes back, each of the clients would be refused several times.
    assert load_.refused <= AT_ONCE
    statuses = [answer["status"] for answers in load_.answers.values() for answer in answers]
    assert statuses == ["done"] * (2 * JOBS)


async def test_a_port_that_others_share_is_refused(tmp_path: Path) -> None:
    """The kernel would let us join; that is another deployment, so the start stops with one line and the cure."""
    port = free_port()
    state = tmp_path / "state"
    with socket.create_server((LOOPBACK, port), reuse_port=True):
        ended = await command(
            "up", "--state", str(state), "--model", "simulated:1,1",
            "--ingresses", "2", "--ingress-port", str(port),
        )  # fmt: skip  # flag and value side by side
    assert ended.code == 2
    assert ended.err == (
        f"inferq: port {port} on 127.0.0.1 is taken by another process;"
        " set INFERQ_INGRESS_PORT to another one, or start with --ports auto\n"
    )


async def test_the_port_is_held_while_none_of_them_lives(pair: LocalPipeline) -> None:
    """Another deployment that starts just then does not slip in between them."""
    port = httpx.URL(pair.urls.api).port or 0
    pids = [pair.children[name].pid or 0 for name in ("ingress-1", "ingress-2")]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(OSError, match="in use"):
        socket.create_server((LOOPBACK, port))
    await eventually(lambda: _both_back(pair), 30, what="both of them")
    await _submit(pair, 1)


async def _submit(pipeline: LocalPipeline, jobs: int) -> None:
    """Submit jobs, each over a connection of its own."""
    for number in range(jobs):
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.post(f"{pipeline.urls.api}/v1/infer", json={"text": f"text {number}"})
        assert response.status_code == 202, response.text


async def _counted(pipeline: LocalPipeline) -> float:
    """Return how many jobs were accepted, as a new connection to the shared port has it."""
    async with httpx.AsyncClient(trust_env=False) as client:
        exposition = (await client.get(pipeline.urls.metrics["ingress"])).text
    return sampled(exposition)[QUEUED]


async def _arriving(pipeline: LocalPipeline, *names: str) -> bool:
    """Say whether jobs come to each of these ingresses by its own word."""
    redis = connect(pipeline.settings.redis_url)
    try:
        beats = await living(redis, pipeline.settings.names.ingresses, IngressBeat, wall_ms())
    finally:
        await redis.aclose()
    busy = [beat.id for beat in beats if beat.arrival_rate > 0]
    return all(any(f"-{pipeline.children[name].pid}-" in found for found in busy) for name in names)


async def _takes_jobs_again(pipeline: LocalPipeline) -> bool:
    await _submit(pipeline, 10)
    return await _arriving(pipeline, "ingress-1")


async def _both_back(pipeline: LocalPipeline) -> bool:
    if not all(pipeline.children[name].restarts for name in ("ingress-1", "ingress-2")):
        return False
    return not await _refused(httpx.URL(pipeline.urls.api))


async def _refused(url: httpx.URL) -> bool:
    """Say whether nobody listens there."""
    try:
        _, writer = await asyncio.open_connection(url.host, url.port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False
