"""What `inferq doctor` finds when something is wrong, each provoked with the real thing."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from inferq.childprocess import inherited_env
from inferq.cli.examining.brokercheck import look_at_broker
from inferq.cli.examining.device import Probed, judge_device, look_at_device
from inferq.cli.examining.disk import Disk, judge_disk, look_at_disks
from inferq.cli.examining.finding import Finding, Grade
from inferq.cli.examining.modelcheck import judge_loaded, look_at_models
from inferq.cli.examining.redischeck import look_at_redis
from inferq.cli.examining.services import look_at_batcher, look_at_ports, look_at_service
from inferq.heartbeats import BatcherBeat, BatchTotals
from inferq.ports import LOOPBACK, free_port
from inferq.runfile import RunningService
from inferq.valkey import EmbeddedValkey
from tests.doctoring import PASSWORD, only, settings_of, with_login
from tests.support import eventually

MIB = 1024 * 1024


def beat(process_id: str, digest: str, **more: Any) -> BatcherBeat:
    """Return a batcher's life sign."""
    return BatcherBeat(
        id=process_id, at_ms=0, model="model", device="cpu", state="idle", last_progress_s=0.0, drain_rate=0.0,
        held=[], seen_ms={}, batches=BatchTotals(), digest=digest, **more,
    )  # fmt: skip  # what matters last


@contextmanager
def python(*argv: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program beside us, until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=inherited_env() | environ,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.send_signal(signal.SIGCONT)
        process.wait(20)


async def test_a_redis_that_may_lose_jobs_is_wrong(own_valkey: EmbeddedValkey) -> None:
    """Eviction, no append-only file, memory near its limit: each is said with its cure, and all is well before."""
    settings = settings_of(own_valkey.url)
    found, told = await look_at_redis(settings)
    assert [one.grade for one in found] == [Grade.OK, Grade.OK]
    assert told is not None
    assert Path(told.config["dir"]).name == "valkey"
    assert abs(told.ahead_ms) < 100
    async with Redis.from_url(own_valkey.url) as redis:
        await redis.config_set("appendfsync", "everysec")
        note = [one for one in (await look_at_redis(settings))[0] if one.grade is Grade.NOTE]
        assert ["appendfsync is everysec" in one.detail for one in note] == [True]
        used = int((await redis.info("memory"))["used_memory"])
        await redis.config_set("maxmemory", str(used + used // 20))
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        await redis.config_set("appendonly", "no")
    wrong = [one for one in (await look_at_redis(settings))[0] if one.grade is Grade.WRONG]
    assert [one.name for one in wrong] == ["redis", "redis", "memory"]
    assert "may evict records (allkeys-lru)" in wrong[0].detail
    assert wrong[0].cure == "set maxmemory-policy to noeviction there"
    assert wrong[1].cure == "set appendonly to yes there"
    assert "soon it takes no jobs" in wrong[2].detail


async def test_a_redis_that_refuses_us_is_not_called_away(valkey_url: str) -> None:
    """A wrong password has another cure than a server that is down; no password is shown."""
    found, told = await look_at_redis(settings_of(with_login(valkey_url, f"bob:{PASSWORD}")))
    (refused,) = found
    assert told is None
    assert "refuses this user or password" in refused.detail
    assert "INFERQ_REDIS_URL" in refused.cure
    found, _ = await look_at_redis(settings_of(f"redis://:{PASSWORD}@{LOOPBACK}:{free_port()}/0"))
    assert "start that Redis" in only(found, "redis").cure
    both = settings_of(with_login(valkey_url, f"bob:{PASSWORD}"))
    (broker,), _ = await look_at_broker(both)
    assert "correct user and password" in broker.cure
    (away,), _ = await look_at_broker(settings_of(f"redis://:{PASSWORD}@{LOOPBACK}:{free_port()}/0"))
    assert "start that Redis" in away.cure
    assert PASSWORD not in str([refused, *found, broker, away])


async def test_a_redis_that_is_the_broker_too_has_one_cure() -> None:
    """Nobody who set no broker is sent to the setting of one."""
    found, _ = await look_at_broker(settings_of("redis://127.0.0.1:1/0"))
    assert "INFERQ_BROKER_URL" not in only(found, "broker").cure


async def test_streams_that_nobody_reads_are_wrong(valkey_url: str, namespace: str) -> None:
    """Until there is a batcher."""
    found, managed = await look_at_broker(settings_of(valkey_url, namespace=namespace))
    assert managed is None
    assert only(found, "broker").grade is Grade.OK
    queues = [one for one in found if one.name == "queues"]
    assert [one.grade for one in queues] == [Grade.WRONG, Grade.WRONG]
    assert queues[0].detail == f"nobody consumes {namespace}inference.requests, and 0 jobs wait there"
    assert "start a batcher" in queues[0].cure


async def test_a_key_that_is_no_stream_is_wrong(valkey_url: str, namespace: str) -> None:
    """Somebody else's key by the name of our queue is told as what it is."""
    async with Redis.from_url(valkey_url) as redis:
        await redis.set(f"{namespace}inference.requests", "mine")
        found, _ = await look_at_broker(settings_of(valkey_url, namespace=namespace))
        await redis.delete(f"{namespace}inference.requests")
    assert found[0].grade is Grade.WRONG
    assert found[0].cure


async def test_files_that_changed_since_they_were_loaded_are_found(tmp_path: Path) -> None:
    """The batcher answers with what it loaded; a second one with other files is found as well."""
    source = Path(__file__).parents[2] / "batcher" / "models" / "builtin"
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    settings = settings_of("redis://h", model=str(folder), device="cpu")
    found, digests = await look_at_models(settings)
    assert only(found, "model").grade is Grade.OK
    (loaded,) = digests["model"]
    assert judge_loaded([beat("b1", loaded)], digests)[0].grade is Grade.OK
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    _, digests = await look_at_models(settings)
    changed = only(judge_loaded([beat("b1", loaded), beat("b2", digests["model"][0])], digests), "loaded")
    assert changed.grade is Grade.WRONG
    assert (
        changed.detail == f"b1 answers with {loaded[:12]}, and on this disk lies {digests['model'][0][:12]}"
    )
    assert "restart that batcher" in changed.cure
    differing = judge_loaded([beat("b1", loaded), beat("b2", digests["model"][0])], {"model": []})
    assert "different files" in only(differing, "loaded").detail
    (folder / "model.onnx").unlink()
    found, digests = await look_at_models(settings)
    assert (only(found, "model").grade, digests) == (Grade.WRONG, {"model": []})
    assert "has no model.onnx" in only(found, "model").detail
    assert only(judge_loaded([], {}), "loaded").cure.startswith("start one")


def test_a_batcher_whose_model_is_gone_is_told() -> None:
    """It still answers; started anew, nobody would know the model. Its fellows are none the worse."""
    found = only(judge_loaded([beat("b1", "d1")], {"other": ["d2"]}), "loaded")
    assert found.grade is Grade.NOTE
    assert found.detail.startswith("batchers serve model, and no folder here is that")
    assert "INFERQ_MODELS" in found.cure


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("only root may mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_is_wrong(tiny_disk: Path, tmp_path: Path) -> None:
    """Of the state folder and of Redis's data; a folder with room is well, and nothing is left in it."""
    (tiny_disk / "filled").write_bytes(bytes(MIB))
    (full,) = await look_at_disks(tiny_disk, None)
    assert full.grade is Grade.WRONG
    assert "has 0 MiB free" in full.detail
    assert "make room" in full.cure
    state = tmp_path / "state"
    state.mkdir()
    found = await look_at_disks(state, tiny_disk)
    assert found[-1].detail.startswith(f"Redis's data {tiny_disk} has 0 MiB free")
    assert list(state.iterdir()) == []


def test_disks_are_judged_by_room_and_by_how_long_a_write_takes() -> None:
    """A slow one and one with little room are notes; one that cannot be written is wrong."""
    folder, room = Path("/f"), 10_000 * MIB
    judged = [
        judge_disk(Disk(folder=folder, free_bytes=free, sync_ms=ms, error=error), "it")[0].grade
        for free, ms, error in [
            (room, 1.0, ""), (room, 900.0, ""), (200 * MIB, 1.0, ""), (room, None, "Read-only file system"),
        ]
    ]  # fmt: skip  # a row for each disk
    assert judged == [Grade.OK, Grade.NOTE, Grade.NOTE, Grade.WRONG]


async def test_who_holds_our_port_is_named() -> None:
    """A program that answers otherwise, one that does not answer, and nobody at all."""
    port = free_port()
    service = RunningService(name="ingress", host=LOOPBACK, port=port)
    (nobody,) = await look_at_service(service)
    assert nobody.detail == f"{LOOPBACK}:{port}: nothing listens there"
    assert look_at_ports([service], None)[0].detail == f"nobody listens on {port}"
    with python("-m", "http.server", str(port), "--bind", LOOPBACK) as stranger:
        who = f"-m http.server (process {stranger.pid})"

        async def answers() -> Finding | None:
            (found,) = await look_at_service(service)
            return found if "answers there" in found.detail else None

        foreign = await eventually(answers, what="the other program")
        assert who in foreign.detail
        assert "INFERQ_INGRESS_PORT" in foreign.cure
        (beside,) = look_at_ports([service], os.getpid() + 1_000_000)
        assert (beside.grade, who in beside.detail) == (Grade.WRONG, True)
        assert look_at_ports([service], os.getpid())[0].detail == f"ours alone listen on {port}"
        stranger.send_signal(signal.SIGSTOP)
        (silent,) = await look_at_service(service)
        assert who in silent.detail
        assert "does not answer" in silent.detail


@pytest.mark.parametrize("says", [b"x" * 100_000, b"220 mail.example ready\r\n\r\n", b"HELLO\r\n\r\n"])
async def test_what_speaks_no_http_on_our_port_is_told(says: bytes) -> None:
    """Whatever it sends, without an end or of another protocol, is a finding as any other."""

    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        with suppress(OSError):
            # Until the other side has gone.
            while await reader.read(1024):
                pass
        writer.transport.abort()
        ended.set()

    async with await asyncio.start_server(answer, LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
        (found,) = await look_at_service(RunningService(name="ingress", host=LOOPBACK, port=port))
        async with asyncio.timeout(10):
            await ended.wait()
    assert found.grade is Grade.WRONG
    assert "listens there and does not answer (it speaks no HTTP)" in found.detail
    assert "INFERQ_INGRESS_PORT" in found.cure


async def test_a_frozen_engine_is_found_past_the_queue(valkey_url: str, namespace: str) -> None:
    """The batcher says how it is; of an engine that a signal stopped, how to wake it."""
    port = free_port()
    environ = {
        "INFERQ_REDIS_URL": valkey_url,
        "INFERQ_NAMESPACE": namespace,
        "INFERQ_MODEL": "simulated:1,0",
        "INFERQ_BATCHER_PORT": str(port),
    }
    service = RunningService(name="batcher-1", host=LOOPBACK, port=port)
    with python("-m", "batcher", **environ) as batcher:

        async def well() -> Finding | None:
            found = await look_at_batcher(service)
            return found[0] if found and found[0].grade is Grade.OK else None

        found = await eventually(well, 30.0, what="the batcher")
        assert "0 jobs in 0 batches" in found.detail
        assert (await look_at_service(service))[0].grade is Grade.OK
        (engine,) = psutil.Process(batcher.pid).children()
        os.kill(engine.pid, signal.SIGSTOP)
        (frozen,) = await look_at_batcher(service)
        assert f"its engine, process {engine.pid}, is stopped by a signal" in frozen.detail
        assert f"kill -CONT {engine.pid}" in frozen.cure
        os.kill(engine.pid, signal.SIGCONT)
        await eventually(well, what="the woken engine")
    # That it is gone, the look at the service says.
    assert await look_at_batcher(service) == []
    assert (await look_at_service(service))[0].grade is Grade.WRONG


async def test_the_device_is_tried_as_it_is_here() -> None:
    """As set, it is the CPU; that of a batcher that fell back is told with its reason where CUDA was asked for."""
    assert (await look_at_device("cpu", []))[0].grade is Grade.OK
    found = await look_at_device("cuda", [beat("b1", "", fallback_reason="CUDA does not start (x)")])
    if found[0].grade is Grade.WRONG:
        assert "cannot use CUDA" in found[0].detail
        assert "INFERQ_DEVICE=auto" in found[0].cure
    assert found[-1].detail == "b1 runs on cpu: CUDA does not start (x)"


@pytest.mark.parametrize(
    ("probed", "card", "grade", "said"),
    [
        ({"gpus": 2, "providers": ["CUDAExecutionProvider"]}, True, Grade.OK, "uses CUDA, on 2 GPUs"),
        ({"driver": "no NVIDIA driver is installed"}, False, Grade.OK, "the CPU; no NVIDIA driver"),
        ({"driver": "the NVIDIA driver does not start"}, True, Grade.NOTE, "though a GPU is here"),
        ({"gpus": 1, "why": "built without CUDA"}, True, Grade.NOTE, "built without CUDA"),
        (
            {"gpus": 1, "providers": ["CUDAExecutionProvider"], "why": "libcudnn.so.9: cannot open"},
            True,
            Grade.NOTE,
            "libcudnn.so.9: cannot open",
        ),
    ],
)
def test_why_cuda_does_not_load_is_told(probed: dict[str, Any], card: bool, grade: Grade, said: str) -> None:
    """Driver, build or library; where CUDA was asked for the same is wrong."""
    (found,) = judge_device("auto", Probed(runtime="1.32", **probed), card=card)
    assert found.grade is grade
    assert said in found.detail
    if "uses CUDA" not in said:
        (asked,) = judge_device("cuda", Probed(runtime="1.32", **probed), card=card)
        assert asked.grade is Grade.WRONG
        assert "INFERQ_DEVICE=auto" in asked.cure
