"""`inferq webhooks` on the webhooks of a real deployment."""

import asyncio
import json
import os
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from inferq.cli.app import app
from inferq.errors import OperatorError
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.signing import secret_of
from tests.deployment import Deployment
from tests.hooking import MASTER, ended

Run = Callable[..., "asyncio.Future[Result]"]


@pytest.fixture
def run(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command against the deployment, beside the test's own loop."""
    for name in list(os.environ):
        if name.startswith("INFERQ_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("INFERQ_REDIS_URL", streams.redis_url)
    monkeypatch.setenv("INFERQ_NAMESPACE", streams.names.namespace)
    monkeypatch.setenv("INFERQ_WEBHOOK_SECRET", MASTER)

    def invoke(*argv: str) -> "asyncio.Future[Result]":
        return asyncio.ensure_future(asyncio.to_thread(CliRunner().invoke, app, ["webhooks", *argv]))

    return invoke


async def given_up(streams: Deployment, owner: str = "") -> str:
    """Have a webhook fail; return the id of its job."""
    outbox = Outbox(streams.redis, streams.names)
    job_id = await ended(streams, "https://a.example/x?key=S3CRET", owner)
    claimed = await outbox.claim("x", lease_ms=10_000, most=1, share=1, free={}, under_way={})
    assert [due.job_id for due in claimed.due] == [job_id]
    assert await outbox.settle(claimed.due[0], "x", "failed", last_status=410, last_error="gone")
    return job_id


async def test_webhooks_are_listed(streams: Deployment, run: Run) -> None:
    """Those that wait and those that failed, or one kind alone; of a URL the host and no more."""
    failed = await given_up(streams, "alice")
    pending = await ended(streams, "https://b.example/x?key=S3CRET")
    both = (await run("list", "--json")).stdout
    assert "S3CRET" not in both
    one, other = map(json.loads, both.splitlines())
    assert other.pop("at") > one.pop("at")[:4]
    assert [one, other] == [
        {
            "job_id": pending, "state": "pending", "host": "b.example", "owner": "", "attempts": 0, "last_status": None,
            "last_error": None,
        },
        {
            "job_id": failed, "state": "failed", "host": "a.example", "owner": "alice", "attempts": 1,
            "last_status": 410, "last_error": "gone",
        },
    ]  # fmt: skip  # as they are shown
    text = (await run("list")).stdout
    assert "S3CRET" not in text
    assert text.endswith("1 pending, 1 failed, 2 shown\n")
    assert failed not in (await run("list", "--pending")).stdout
    assert pending not in (await run("list", "--failed")).stdout


async def test_nothing_to_list(run: Run) -> None:
    """Said in one line, as JSON in none."""
    assert (await run("list")).stdout == "0 pending, 0 failed\n"
    assert (await run("list", "--json")).stdout == ""


async def test_webhooks_are_retried(streams: Deployment, run: Run) -> None:
    """By the ids of their jobs, or all that failed; an id without a webhook is an error."""
    outbox = Outbox(streams.redis, streams.names)
    ids = [await given_up(streams) for _ in range(3)]
    once = await run("retry", ids[0], ids[0], "nothing")
    assert (once.exit_code, once.stdout) == (1, "1 due now\n")
    assert "job nothing has no webhook that waits or was given up" in once.stderr
    assert (await outbox.pending(), await outbox.failed()) == (1, 2)
    every = await run("retry", "--failed")
    assert (every.exit_code, every.stdout) == (0, "2 due now\n")
    assert (await outbox.pending(), await outbox.failed()) == (3, 0)


@pytest.mark.parametrize("argv", [["retry"], ["retry", "--failed", "x"]])
async def test_a_retry_says_of_which(run: Run, argv: list[str]) -> None:
    """Ids, or all that failed."""
    ended = await run(*argv)
    assert isinstance(ended.exception, OperatorError)
    assert str(ended.exception) == "give the ids of jobs, or --failed"


async def test_a_keys_secret_is_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the key's name; without one that of a deployment without keys, and the deployment's own never."""
    assert (await run("secret", "alice")).stdout == secret_of(MASTER, "alice") + "\n"
    assert (await run("secret")).stdout == secret_of(MASTER, "") + "\n"
    monkeypatch.delenv("INFERQ_WEBHOOK_SECRET")
    ended = await run("secret", "alice")
    assert isinstance(ended.exception, OperatorError)
    assert "INFERQ_WEBHOOK_SECRET is not set" in str(ended.exception)
