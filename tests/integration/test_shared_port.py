"""Several ingress processes on one port: who may listen there, who answers, and what their metrics add up to."""

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from inferq.childprocess import inherited_env
from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port, free_ports, port_taken
from inferq.probe import ask
from inferq.server import listen
from inferq.servicechild import ServiceChild, service_argv
from inferq.settings import load, require_servers
from inferq.summing import SUMMED_IN
from ingress.__main__ import main
from tests.deployment import Deployment
from tests.proxy import proxied
from tests.support import eventually

# Counts a job, an open thing and a depth under the identity that it is given, says so, and lives until it is killed.
_COUNTING = """
import sys
from inferq.telemetry import Metrics

metrics = Metrics(identity=sys.argv[1])
metrics.jobs.labels("queued").inc()
metrics.seconds("submit", "Time").observe(0.002)
metrics.gauge("open", "Open things").inc()
metrics.common_gauge("queue_depth", "Jobs that wait").set(float(sys.argv[2]))
metrics.worst_gauge("trouble", "Trouble").set(-float(sys.argv[2]))
print("counted", flush=True)
sys.stdin.readline()
sys.stdout.buffer.write(metrics.render())
"""


def test_those_that_share_a_port_listen_side_by_side() -> None:
    """Any number of them may; whoever does not mean to share is refused with one line, in either order."""
    port = free_port()
    refusal = (
        rf"^cannot listen on {LOOPBACK}:{port} \(Address already in use\): .* or set INFERQ_INGRESS_PORT$"
    )
    with _listen(port, shared=True), _listen(port, shared=True), pytest.raises(OperatorError, match=refusal):
        _listen(port, shared=False)
    with _listen(port, shared=False), pytest.raises(OperatorError, match=refusal):
        _listen(port, shared=True)


def test_each_of_those_that_share_gets_connections() -> None:
    """The kernel spreads them; of many, none is left without."""
    port = free_port()
    with _listen(port, shared=True) as one, _listen(port, shared=True) as other:
        clients = [socket.create_connection((LOOPBACK, port)) for _ in range(64)]
        counts = {one: 0, other: 0}
        while sum(counts.values()) < len(clients):
            waiting, _, _ = select.select(list(counts), [], [], 10)
            assert waiting, f"connections are missing: {counts}"
            for listener in waiting:
                listener.accept()[0].close()
                counts[listener] += 1
        for client in clients:
            client.close()
    assert all(counts.values())


def _listen(port: int, *, shared: bool) -> socket.socket:
    return listen(LOOPBACK, port, setting="INFERQ_INGRESS_PORT", shared=shared)


async def test_counts_survive_a_death_and_gauges_do_not_double(tmp_path: Path) -> None:
    """A next life goes on from what the last one counted, in the same files; what that one had open is gone.

    Whoever is asked answers for all. Of what all measure alike, the last measurement stands; of trouble, the worst.
    """
    first, second = await _counting(tmp_path, "one", 7), await _counting(tmp_path, "two", 8)
    files = _names(tmp_path)
    first.kill()
    await first.wait()
    again = await _counting(tmp_path, "one", 9)
    said = [await _rendered(process) for process in (second, again)]
    assert said[0] == said[1]
    samples = _samples(said[0])
    assert samples['inferq_jobs_total{status="queued"}'] == 3
    assert samples["inferq_submit_seconds_count"] == 3
    assert samples['inferq_submit_seconds_bucket{le="0.0025"}'] == 3
    assert samples['inferq_submit_seconds_bucket{le="0.001"}'] == 0
    assert samples["inferq_open"] == 2
    assert samples["inferq_queue_depth"] == 9
    # The worst of those that live: the -7 went with its process.
    assert samples["inferq_trouble"] == -8
    assert _names(tmp_path) == files


async def test_without_an_identity_each_process_counts_for_itself(tmp_path: Path) -> None:
    """Started by hand they need none: the files are the processes', and are summed as well."""
    first, second = await _counting(tmp_path, "", 1), await _counting(tmp_path, "", 2)
    samples = _samples(await _rendered(first))
    await _rendered(second)
    assert samples['inferq_jobs_total{status="queued"}'] == 2
    assert samples["inferq_queue_depth"] == 2


async def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """The process that is to keep its metrics there does not start, and says what to do."""
    process = await _start(tmp_path / "nowhere", "one", 1)
    _, err = await process.communicate()
    assert err.decode().splitlines()[-1] == (
        f"inferq.errors.OperatorError: PROMETHEUS_MULTIPROC_DIR='{tmp_path}/nowhere' is no folder:"
        " make it, empty, before the first start, or unset it"
    )


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def _start(folder: Path, identity: str, depth: int) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _COUNTING, identity, str(depth),
        stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, SUMMED_IN: str(folder)},
    )  # fmt: skip  # the command first, then its surroundings


async def _counting(folder: Path, identity: str, depth: int) -> asyncio.subprocess.Process:
    process = await _start(folder, identity, depth)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"counted\n"
    return process


async def _rendered(process: asyncio.subprocess.Process) -> str:
    out, _ = await process.communicate(b"\n")
    return out.decode()


def _samples(exposition: str) -> dict[str, float]:
    lines = [line for line in exposition.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture
async def by_hand(streams: Deployment, tmp_path: Path) -> AsyncIterator[list[ServiceChild]]:
    """Two ingresses that share a port, started as `python -m ingress` is by hand; the second has a probe port too."""
    port, probe_port = free_ports(2)
    environ = inherited_env() | {
        "INFERQ_REDIS_URL": streams.redis_url,
        "INFERQ_NAMESPACE": streams.names.namespace,
        "INFERQ_INGRESS_PORT": str(port),
        "INFERQ_INGRESSES": "2",
    }
    children = [
        _child("one", environ, port, tmp_path),
        _child("two", environ | {"INFERQ_PROBE_PORT": str(probe_port)}, probe_port, tmp_path),
    ]
    try:
        # One after the other: while the first is alone, whoever asks on the port asks it.
        for child in children:
            await child.start()
            await child.ready(30, lambda text: None)
        yield children
    finally:
        for child in children:
            await child.stop()


def _child(name: str, environ: Mapping[str, str], port: int, folder: Path) -> ServiceChild:
    return ServiceChild(
        name,
        service_argv("ingress"),
        env=environ,
        host=LOOPBACK,
        port=port,
        record=folder / f"{name}.pid",
        on_line=lambda _, line: None,
    )


async def test_ingresses_by_hand_share_a_port(by_hand: list[ServiceChild]) -> None:
    """Both take connections; a third that does not mean to share is refused; one serves on when the other is killed."""
    first, second = by_hand
    url = f"http://{LOOPBACK}:{first.port}"
    await eventually(lambda: _both_have_connections(url, by_hand), what="connections of both")
    with pytest.raises(OperatorError, match="Address already in use"):
        _listen(first.port, shared=False)
    os.kill(second.pid or 0, signal.SIGKILL)
    assert await second.wait() == -signal.SIGKILL
    for _ in range(20):
        async with httpx.AsyncClient() as client:
            response = await client.post(f"{url}/v1/infer", json={"text": "served by the other"})
        assert response.status_code == 202


async def test_a_probe_port_serves_what_the_shared_one_does(by_hand: list[ServiceChild]) -> None:
    """It is a second address of one process: probes, metrics and the API itself."""
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{by_hand[1].port}") as client:
        accepted = await client.post("/v1/infer", json={"text": "at the probe port"})
        assert accepted.status_code == 202
        assert (await client.get(accepted.json()["status_url"])).status_code == 200
        assert 'inferq_jobs_total{status="queued"} 1.0' in (await client.get("/metrics")).text


async def test_an_ingress_joins_once_it_can_answer(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections go to those that share the port with it while its own broker is not open yet."""
    monkeypatch.setattr("ingress.__main__.JOIN_WITHIN_S", 60.0)
    port, probe_port = free_ports(2)
    async with proxied(streams.redis_url) as (proxy, redis_url), _joining(redis_url, port, probe_port):
        proxy.freeze()
        await eventually(lambda: proxy.connections, what="its first word to Redis")
        assert port_taken(probe_port)
        assert not port_taken(port)
        proxy.resume()
        await eventually(lambda: _status(port, "/readyz", 200), what="readiness")


async def test_an_ingress_joins_without_its_broker_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With none of them able to answer, clients are told so instead of meeting a closed port; a stop ends the wait."""
    monkeypatch.setattr("ingress.__main__.JOIN_WITHIN_S", 0.1)
    port, probe_port, nobody = free_ports(3)
    async with _joining(f"redis://{LOOPBACK}:{nobody}/0", port, probe_port):
        await eventually(lambda: _status(port, "/readyz", 503), what="an answer")
    monkeypatch.setattr("ingress.__main__.JOIN_WITHIN_S", 60.0)
    async with _joining(f"redis://{LOOPBACK}:{nobody}/0", port, probe_port):
        await eventually(lambda: port_taken(probe_port), what="its start")


@asynccontextmanager
async def _joining(redis_url: str, port: int, probe_port: int) -> AsyncIterator[None]:
    """Run an ingress that shares a port in the test's own process."""
    environ = {
        "INFERQ_REDIS_URL": redis_url,
        "INFERQ_INGRESS_PORT": str(port),
        "INFERQ_PROBE_PORT": str(probe_port),
        "INFERQ_INGRESSES": "2",
    }
    stopping = asyncio.Event()
    running = asyncio.create_task(main(require_servers(load(environ)[0]), stopping))
    try:
        yield
    finally:
        stopping.set()
        async with asyncio.timeout(10.0):
            await running


async def _status(port: int, path: str, status: int) -> bool:
    return (await ask(LOOPBACK, port, path)).status == status


async def _both_have_connections(url: str, children: list[ServiceChild]) -> bool:
    """Say whether, of some clients that are connected at once, each process has at least one."""
    port = httpx.URL(url).port
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=32)) as client:
        await asyncio.gather(*(client.get(f"{url}/healthz") for _ in range(32)))
        return all(_connections(child.pid or 0, port) for child in children)


def _connections(pid: int, port: int | None) -> int:
    """Return how many clients are connected to a process on a port."""
    return sum(
        entry.status == psutil.CONN_ESTABLISHED and entry.laddr.port == port
        for entry in psutil.Process(pid).net_connections("tcp")
    )
