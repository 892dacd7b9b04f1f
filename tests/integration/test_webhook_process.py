"""Webhooks sent by notifiers in processes of their own, which are killed and stopped."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from inferq.ports import LOOPBACK, free_port
from tests.deployment import Deployment
from tests.hooking import MASTER, SECRET, becomes, ended, webhook_of
from tests.receiver import SILENT, Answer, receiving
from tests.support import eventually


@asynccontextmanager
async def notifying_process(streams: Deployment, port: int) -> AsyncIterator[Process]:
    """Run a notifier that sends webhooks to loopback; it is killed at the end, if it still runs."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INFERQ_")} | {
        "INFERQ_REDIS_URL": streams.redis_url,
        "INFERQ_NAMESPACE": streams.names.namespace,
        "INFERQ_NOTIFIER_PORT": str(port),
        "INFERQ_WEBHOOK_SECRET": MASTER,
        "INFERQ_WEBHOOK_HOSTS": "127.0.0.1",
        "INFERQ_WEBHOOK_RETRY_MS": "100",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "notifier", env=environ, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx.AsyncClient() as client:

            async def ready() -> bool:
                try:
                    return (await client.get(f"http://{LOOPBACK}:{port}/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(ready, 30.0, what="the notifier")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def none_pending(port: int) -> str:
    """Return the metrics once they say that nothing is pending; a look each second counts."""
    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"http://{LOOPBACK}:{port}/metrics")).text
    return metrics if "inferq_webhooks_pending 0.0" in metrics else ""


@pytest.mark.timeout(120)
async def test_a_kill_in_mid_try_loses_nothing(streams: Deployment) -> None:
    """Another notifier sends the same event once the claim has lapsed, and tells of it; SIGTERM ends it in order."""
    answers = iter([SILENT, Answer(status=500)])
    port = free_port()
    async with receiving(lambda got: next(answers, Answer())) as receiver:
        async with notifying_process(streams, free_port()) as first:
            job_id = await ended(streams, receiver.url())
            await receiver.has(1)
            first.kill()
        assert (await webhook_of(streams, job_id))["state"] == "pending"
        async with notifying_process(streams, port) as second:
            record = await becomes(streams, job_id, "delivered", timeout_s=40.0)
            metrics = await eventually(lambda: none_pending(port), what="a count of none")
            second.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10.0):
                assert await second.wait() == 0
    assert record["attempts"] == 2, "a try that nobody came back from is not counted"
    assert [got.id for got in receiver.got] == [f"msg_{job_id}_3"] * 3
    assert receiver.got[2].verified(SECRET)["job_id"] == job_id
    assert 'inferq_webhook_attempts_total{outcome="delivered"} 1.0' in metrics
    assert 'inferq_webhook_attempts_total{outcome="status"} 1.0' in metrics


async def test_a_secret_in_a_flag_is_warned_of(streams: Deployment) -> None:
    """At the start, without the secret itself, which appears nowhere in the log."""
    flags = [
        "--redis-url",
        streams.redis_url,
        "--notifier-port",
        str(free_port()),
        "--webhook-secret",
        MASTER,
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INFERQ_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "notifier", *flags, "--log-level", "debug",
        env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip  # a command line
    assert process.stdout is not None
    lines = []
    try:
        async with asyncio.timeout(30.0):
            async for line in process.stdout:
                lines.append(line)
                if b"notifier.listening" in line:
                    process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    output = b"".join(lines)
    assert output.count(b"settings.exposed") == 1
    assert b"--webhook-secret can be read by everybody on this machine" in output
    assert MASTER.encode() not in output
    assert MASTER.removeprefix("whsec_").encode() not in output
