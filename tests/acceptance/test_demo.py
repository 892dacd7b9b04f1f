"""`inferq demo`: one command, results, nothing left."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import aio_pika
import httpx
import pytest
from redis.asyncio import Redis

from inferq.names import Names
from inferq.rabbitnode import PrivateRabbit
from tests.acceptance.conftest import SIMULATED
from tests.acceptance.running import Ended, command, environ
from tests.support import eventually

SENTENCES = 8
COLUMNS = (
    "sentence",
    "label",
    "score",
    "to 202 ms",
    "to result ms",
    "batch",
    "queue wait ms",
    "inference ms",
)


def check_table(ended: Ended) -> list[str]:
    """Check what every good demo prints, and return the labels in order."""
    assert ended.code == 0, ended.err
    head, *rows, summary = ended.out.splitlines()
    assert [head.index(column) for column in COLUMNS] == sorted(head.index(column) for column in COLUMNS)
    assert max(len(line) for line in ended.out.splitlines()) <= 120
    assert len(rows) == SENTENCES
    found = [
        re.search(r"  (NEGATIVE|POSITIVE)  (0\.\d{4}) +([\d.]+) +([\d.]+) +(\d+) +([\d.]+) +([\d.]+)$", row)
        for row in rows
    ]
    for row, match in zip(rows, found, strict=True):
        assert match is not None, row
        accepted_ms, result_ms = float(match[3]), float(match[4])
        assert 0 < accepted_ms <= result_ms
        assert 1 <= int(match[5]) <= SENTENCES
        assert float(match[6]) <= result_ms
        assert 0 < float(match[7]) <= result_ms
    assert re.match(rf"{SENTENCES} of {SENTENCES} done in \d+ ms, \d batch(es)?, model \w+$", summary)
    return [match[1] for match in found if match is not None]


def left_in(folder: Path) -> list[str]:
    """Return what a demo left in the folder for temporary files."""
    return [path.name for path in folder.iterdir() if path.name.startswith("inferq-")]


async def test_the_demo_shows_every_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each sentence with its label, score and times; steps go to standard error; its folder is removed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ended = await command("demo", settings={"model": SIMULATED})
    check_table(ended)
    assert "Valkey is up on port" in ended.err
    assert "the pipeline is up after" in ended.err
    assert left_in(tmp_path) == []


async def test_the_built_in_model_reads_sentiment() -> None:
    """With no setting at all the sample sentences get the labels that a reader would give them."""
    labels = check_table(await command("demo"))
    assert labels == ["POSITIVE", "NEGATIVE"] * (SENTENCES // 2)


async def test_a_demo_on_a_shared_broker_cleans_up(rabbit_url: str, valkey_url: str) -> None:
    """On servers of others it uses names of its own, and removes queues, exchanges and keys afterwards."""
    names = Names()
    async with await aio_pika.connect(rabbit_url) as connection, Redis.from_url(valkey_url) as redis:
        channel = await connection.channel()
        await channel.declare_queue(names.queue("builtin"), arguments={"x-max-length": 1})
        before = set(await redis.keys())
        ended = await command(
            "demo", settings={"model": SIMULATED, "broker_url": rabbit_url, "redis_url": valkey_url}
        )
        check_table(ended)
        # What others left there may run out meanwhile.
        assert set(await redis.keys()) <= before
        # A queue of the default name, with other arguments, was none of its business.
        await channel.queue_delete(names.queue("builtin"))


async def test_a_demo_with_a_broker_alone(rabbit_node: PrivateRabbit) -> None:
    """Records are in an embedded Valkey then; its queues are on the broker while it runs, and gone afterwards."""
    management = httpx.AsyncClient(
        base_url=rabbit_node.management_url, auth=rabbit_node.management_credentials, trust_env=False
    )

    async def of_demos(kind: str) -> set[str]:
        found = json.loads((await management.get(f"api/{kind}")).content)
        return {one["name"] for one in found if one["name"].startswith("demo-")}

    async def nothing_left() -> bool:
        return not (await of_demos("queues") or await of_demos("exchanges"))

    async with management, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            command("demo", settings={"model": SIMULATED, "broker_url": rabbit_node.url})
        )
        queues = await eventually(lambda: of_demos("queues"), 60, what="queues of the demo")
        assert len({name.split("-")[1] for name in queues}) == 1, queues
        ended = await running
        check_table(ended)
        assert "Valkey is up on port" in ended.err
        # The management's lists follow a little later.
        await eventually(nothing_left, 20, what="nothing of the demo on the broker")


async def test_a_demo_starts_a_private_rabbitmq(rabbitmq_installed: None) -> None:
    """`--broker-url rabbitmq` is all it takes."""
    ended = await command("demo", "--broker-url", "rabbitmq", "--model", SIMULATED, within_s=110)
    check_table(ended)
    assert "the private RabbitMQ is up after" in ended.err


async def test_a_demo_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A service's refusal is the last line, after what led to it; exit 2."""
    ended = await command(
        "demo",
        "--model",
        SIMULATED,
        "--redis-url",
        "redis://127.0.0.1:1",
        "--broker-url",
        "redis://127.0.0.1:2",
    )
    assert ended.code == 2
    assert ended.out == ""
    assert "INFERQ_BROKER_URL names another Redis" in ended.err.splitlines()[-1]
    assert "what the pipeline said last:" in ended.err


async def test_an_interrupted_demo_stops_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it starts ends it with the shell's code for that, and its folder is removed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inferq", "demo", "--model", SIMULATED,
        env=environ({}), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip  # the command first, then its surroundings
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"starting notifier" not in await process.stderr.readline():
            assert not process.stderr.at_eof()
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    assert process.returncode == 130
    assert out == b""
    assert left_in(tmp_path) == []
