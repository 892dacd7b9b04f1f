"""`inferq up`: starts all, keeps all alive, stops all."""

import asyncio
import json
import os
import re
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import StartPipeline
from tests.acceptance.pages import text_of
from tests.acceptance.running import Up, command, environ, living
from tests.support import eventually

VICTIMS = ("notifier", "batcher-1", "engine", "ingress", "valkey")


async def test_up_prints_where_everything_is(pipeline: Up) -> None:
    """The addresses that it prints are those of the API, of push and of each service's metrics."""
    assert f"API        {pipeline.api}\n" in pipeline.out
    assert f"docs       {pipeline.api}/docs\n" in pipeline.out
    assert "keys" not in pipeline.out
    (submit,) = re.findall(r"^  submit .+, or: (.+)$", pipeline.out, re.MULTILINE)
    pasted = await asyncio.create_subprocess_exec("sh", "-c", submit, env=environ({}))
    assert await pasted.wait() == 0
    assert f"WebSocket  {pipeline.push}/ws/jobs/" in pipeline.out
    assert set(pipeline.services) == {"ingress", "notifier", "batcher-1"}
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, base in pipeline.services.items():
            assert f"metrics    {base}/metrics  ({name})\n" in pipeline.out
            assert "inferq_" in (await client.get(f"{base}/metrics")).text
            assert (await client.get(f"{base}/healthz")).status_code == 200
            assert (await client.get(f"{base}/readyz")).json()["status"] == "ready"


async def test_a_metric_is_where_the_page_says(start_pipeline: StartPipeline) -> None:
    """Each process exports what docs/operating.md says that it does, and no other of these metrics."""
    # Some are of hash routing alone.
    up = start_pipeline(routing="hash", shards="8")
    await up.pushed(await up.submit("where is it counted?"))
    exported: dict[str, str] = {}
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, base in up.services.items():
            exported[name.partition("-")[0]] = (await client.get(f"{base}/metrics")).text
    rows = re.findall(r"^\| (`inferq_.*) \| ([a-z, ]+) \| .+ \|$", text_of("docs/operating.md"), re.MULTILINE)
    told = {metric: where for row, where in rows for metric in re.findall(r"`(inferq_\w+)", row)}
    assert len(told) > 10
    for metric, where in told.items():
        assert _exporters(metric, exported) == set(where.split(", ")), metric


def _exporters(metric: str, exported: dict[str, str]) -> set[str]:
    """Return which processes have values of a metric, or where none has any yet, which ones know it."""
    having = {name for name, text in exported.items() if re.search(rf"^{metric}(_count)?[{{ ]", text, re.M)}
    return having or {name for name, text in exported.items() if f"# TYPE {metric} " in text}


async def test_a_job_goes_all_the_way(each_pipeline: Up) -> None:
    """A submitted text is pushed as a final record, and polled as the same one, on both brokers."""
    job_id = await each_pipeline.submit("all the way")
    record = await each_pipeline.pushed(job_id)
    assert record["status"] == "done"
    async with httpx.AsyncClient(trust_env=False) as client:
        polled = (await client.get(f"{each_pipeline.api}/v1/jobs/{job_id}")).json()
    assert polled == record


async def test_what_it_writes_down_is_for_its_owner_alone(pipeline: Up) -> None:
    """The file names servers with their passwords."""
    assert stat.S_IMODE((pipeline.state_dir / "run.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(pipeline.state_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize("victim", VICTIMS)
async def test_what_is_killed_comes_back(pipeline: Up, victim: str) -> None:
    """Whatever dies by SIGKILL runs again, at the same address and with the same data, and jobs go through."""
    before = await pipeline.submit(f"before the death of {victim}")
    assert (await pipeline.pushed(before))["status"] == "done"
    services, killed = pipeline.services, pipeline.pid(victim)
    assert killed
    said = pipeline.err.count(f"{victim} died with signal SIGKILL; restart in ")
    os.kill(killed, signal.SIGKILL)

    def returned() -> bool:
        return pipeline.pid(victim) not in {killed, 0}

    await eventually(returned, timeout_s=30, what=f"another {victim}")
    await eventually(pipeline.ready, timeout_s=30, every_s=0.1, what="readiness")
    assert pipeline.services == services
    after = await pipeline.submit(f"after the death of {victim}")
    assert (await pipeline.pushed(after))["status"] == "done"
    assert (await pipeline.pushed(before))["status"] == "done"
    # An engine belongs to its batcher, which has its own words for that.
    assert pipeline.err.count(f"{victim} died with signal SIGKILL; restart in ") == said + (
        victim != "engine"
    )


async def test_ctrl_c_stops_all_in_order(start_pipeline: StartPipeline) -> None:
    """One SIGINT ends ingress, batchers and notifier in this order; exit 0, nothing is left, the data stays."""
    up = start_pipeline("--batchers", "2")
    processes = up.processes()
    assert {"batcher-1", "batcher-2"} <= set(up.services)
    assert up.stop() == 0
    stops = re.findall(r'"event": "(\w+)\.stopped"', up.err)
    assert stops == ["ingress", "batcher", "batcher", "notifier"]
    assert living(processes) == []
    assert not (up.state_dir / "run.json").exists()
    assert (up.state_dir / "valkey" / "appendonlydir").is_dir()


async def test_jobs_outlive_a_restart_of_everything(start_pipeline: StartPipeline) -> None:
    """Records are there after a stop and a start with the same state folder, though the ports are others."""
    up = start_pipeline()
    job_id = await up.submit("kept")
    record = await up.pushed(job_id)
    up.stop()
    up.start()
    assert await up.pushed(job_id) == record


async def test_a_second_signal_kills_at_once(start_pipeline: StartPipeline) -> None:
    """While a batch of a minute holds up the stop, another SIGINT ends everything without waiting for it."""
    up = start_pipeline(model="simulated:60000,0", engine_timeout_ms="120000")
    processes = up.processes()
    job_id = await up.submit("slow")
    async with httpx.AsyncClient(trust_env=False) as client:

        async def runs() -> bool:
            return bool((await client.get(f"{up.api}/v1/jobs/{job_id}")).json()["status"] == "running")

        await eventually(runs, what="the batch")
    up.signal(signal.SIGINT)
    await eventually(lambda: '"ingress.stopped"' in up.err, what="the stop")
    up.signal(signal.SIGINT)
    assert up.wait() == 0
    assert '"batcher.stopped"' not in up.err
    await eventually(lambda: living(processes) == [], what="the end of every process")


async def test_nothing_outlives_a_killed_supervisor(start_pipeline: StartPipeline) -> None:
    """SIGKILL of the supervisor takes every child with it, engines and servers included."""
    up = start_pipeline()
    processes = up.processes()
    assert len(processes) >= 5
    up.kill()
    await eventually(lambda: living(processes) == [], what="the end of every process")


async def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    """The line names the port, the setting and the cure; nothing has been started."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = await command(
            "up", "--state", str(tmp_path / "state"), "--model", "simulated:1,1", "--ingress-port", str(port)
        )
    assert ended.code == 2
    assert ended.err == (
        f"inferq: port {port} on 127.0.0.1 is taken by another process;"
        " set INFERQ_INGRESS_PORT to another one, or start with --ports auto\n"
    )
    assert not (tmp_path / "state" / "valkey").exists()


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (("--max-batch-size", "0"), "--max-batch-size='0' is not allowed: it must be a whole number from 1 to 1024"),
        (("--ports", "auto", "--ingress-port", "9000"), "--ingress-port and --ports auto exclude each other: give one"),
        (("--ports", "auto", "--model", "./nowhere"), ".*model folder nowhere.*: .+"),
        (
            ("--ports", "auto", "--model", "simulated:1,1", "--redis-url", "redis://127.0.0.1:1/0",
             "--broker-url", "redis://127.0.0.1:2/0"),
            ".*INFERQ_BROKER_URL names another Redis than INFERQ_REDIS_URL: .*",
        ),
    ],
)  # fmt: skip  # flags and refusal side by side
async def test_an_operators_mistake_is_one_line(tmp_path: Path, flags: tuple[str, ...], refusal: str) -> None:
    """A wrong setting, a missing model, a refusal by a service: exit 2 and, as the last line, what is wrong."""
    ended = await command("up", "--state", str(tmp_path / "state"), *flags)
    assert ended.code == 2
    assert re.fullmatch(f"inferq: {refusal}", ended.err.splitlines()[-1]), ended.err
    assert "Traceback" not in ended.err


async def test_keys_that_cannot_be_read_start_nothing(tmp_path: Path) -> None:
    """The one line names the setting, the file and the cure; not even the embedded Valkey has run."""
    file = tmp_path / "keys"
    state = tmp_path / "state"
    flags = ("--ports", "auto", "--model", "simulated:1,1", "--api-keys", f"@{file}")
    ended = await command("up", "--state", str(state), *flags)
    assert ended.code == 2
    assert ended.err == (
        f"inferq: INFERQ_API_KEYS=@{file}: the file cannot be read (No such file or directory):"
        " name one that this process may read\n"
    )
    assert not (state / "valkey").exists()


async def test_a_state_folder_has_one_user(pipeline: Up) -> None:
    """A second supervisor on the same folder is refused, and the first goes on."""
    ended = await command(
        "up", "--ports", "auto", "--state", str(pipeline.state_dir), "--model", "simulated:1,1"
    )
    assert ended.code == 2
    place = f"the folder {pipeline.state_dir} is in use by process {pipeline.run_file['pid']}"
    assert re.fullmatch(
        f"inferq: {re.escape(place)}; stop it or choose another folder with --state\n", ended.err
    ), ended.err
    assert await pipeline.ready()


async def test_a_private_rabbitmq_shows_the_queue(start_pipeline: StartPipeline) -> None:
    """The management URL, user and password that it prints lead to the queue, and `/ops` links there; killed, the node
    returns with it.
    """
    up = start_pipeline(broker="private")
    found = re.search(r"RabbitMQ   (\S+)  user (\S+), password (\S+)", up.out)
    assert found is not None
    url, user, password = found.groups()
    assert (await up.pushed(await up.submit("through RabbitMQ")))["status"] == "done"
    async with httpx.AsyncClient(trust_env=False, auth=(user, password)) as client:
        queues = json.loads((await client.get(f"{url}api/queues")).content)
    assert "inference.requests" in {queue["name"] for queue in queues}
    async with httpx.AsyncClient(trust_env=False) as client:
        assert f'content="{url}"' in (await client.get(f"{up.api}/ops")).text

    killed = up.pid("rabbitmq")
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: up.pid("rabbitmq") not in {killed, 0}, timeout_s=60, what="another RabbitMQ")
    await eventually(up.ready, timeout_s=60, every_s=0.2, what="readiness")
    assert (await up.pushed(await up.submit("through RabbitMQ again")))["status"] == "done"
