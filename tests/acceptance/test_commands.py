"""The commands against a running pipeline."""

import json
import re

import pytest
from redis.asyncio import Redis

from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up, command
from tests.support import eventually


async def test_submit_prints_results_in_the_order_of_the_texts(pipeline: Up) -> None:
    """One line each, label and score first; `-` stands for the lines of standard input, empty ones left out."""
    ended = await pipeline.command("submit", "first", "-", "last", stdin="one\n\n  \ntwo words\n")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line.rpartition(" ms  ")[2] for line in lines] == ["first", "one", "two words", "last"]
    assert all(re.match(r"(NEGATIVE|POSITIVE) +0\.\d{4} +[\d.]+ ms", line) for line in lines)


async def test_submit_prints_records_as_json(each_pipeline: Up) -> None:
    """`--json` gives one whole record a line, in order, however many there are."""
    texts = [f"text number {number}" for number in range(200)]
    ended = await each_pipeline.command("submit", "--json", "-", stdin="\n".join(texts))
    assert ended.code == 0, ended.err
    records = [json.loads(line) for line in ended.out.splitlines()]
    assert len(records) == len(texts)
    assert {record["status"] for record in records} == {"done"}
    again = await each_pipeline.command("submit", "--json", texts[150])
    # The model answers by the text, so the order shows.
    assert json.loads(again.out)["result"] == records[150]["result"]


async def test_submit_fails_when_any_text_is_not_done(pipeline: Up) -> None:
    """A refused text and a failed job each have their line, with the reason; the others are done; exit 1."""
    ended = await pipeline.command("submit", "good", "x" * 2001, "[[raise]]", "good too")
    assert ended.code == 1
    good, refused, failed, other = ended.out.splitlines()
    assert good.endswith("good")
    assert refused.startswith("refused   invalid_request: /text ")
    assert failed.startswith("failed inference_failed: ")
    assert other.endswith("good too")


async def test_submit_polls_where_push_is_away(start_pipeline: StartPipeline) -> None:
    """A push address that nothing answers at costs a moment, no result."""
    up = start_pipeline(public_notifier_url="ws://127.0.0.1:1")
    ended = await up.command("submit", "without push")
    assert ended.code == 0, ended.err


async def test_submit_waits_out_a_full_queue(start_pipeline: StartPipeline) -> None:
    """503 is tried again after Retry-After, so more texts than the queue takes all get through."""
    up = start_pipeline(queue_limit="4", max_batch_size="1", model="simulated:20,0")
    ended = await up.command(
        "submit", "--json", "-", stdin="\n".join(f"text {number}" for number in range(30))
    )
    assert ended.code == 0, ended.out
    assert len(ended.out.splitlines()) == 30


@pytest.mark.parametrize("argv", [("submit", "text"), ("job", "0" * 32), ("stats",)], ids=" ".join)
async def test_without_a_service_a_command_says_what_to_start(argv: tuple[str, ...]) -> None:
    """No answer is one line with the cure and exit 2."""
    ended = await command(*argv, "--url", "http://127.0.0.1:1")
    assert ended.code == 2
    assert ended.err == (
        "inferq: no answer from http://127.0.0.1:1 (ConnectError): start it with `inferq up`, or give its --url,"
        " or the --state that it was started with\n"
    )


async def test_job_shows_a_record(pipeline: Up) -> None:
    """The record as a table, or as the JSON that the API gives; an unknown id is one line and exit 1."""
    job_id = await pipeline.submit("show me")
    record = await pipeline.pushed(job_id)
    shown = await pipeline.command("job", job_id)
    assert shown.code == 0, shown.err
    for part in (
        job_id,
        "done",
        record["result"]["label"],
        record["batch"]["batcher"],
        "1 job, ",
        "queue wait",
    ):
        assert part in shown.out
    assert json.loads((await pipeline.command("job", job_id, "--json")).out) == record
    missing = await pipeline.command("job", "0" * 32)
    assert missing.code == 1
    assert missing.err.startswith("inferq: not_found: ")


async def test_stats_shows_queue_and_batchers(pipeline: Up) -> None:
    """Depth, rates and each batcher, as text and as the API's JSON."""
    await pipeline.pushed(await pipeline.submit("count me"))

    async def told() -> bool:
        # Heartbeats come once a second; the first ones are of a batcher that still loads.
        return '"cpu"' in (await pipeline.command("stats", "--json")).out

    await eventually(told, every_s=0.2, what="a heartbeat of a batcher that is ready")
    shown = await pipeline.command("stats")
    assert shown.code == 0, shown.err
    for part in ("waiting", "dead letters", "arrival", "drain", "simulated", "cpu"):
        assert part in shown.out
    found = json.loads((await pipeline.command("stats", "--json")).out)
    assert set(found) == {"queue", "batchers", "batches", "cache", "routing", "latency_ms", "breakers"}


async def test_doctor_finds_a_healthy_pipeline_well(each_pipeline: Up) -> None:
    """Every check is ok, one job end to end included; exit 0, and no password is shown."""
    ended = await each_pipeline.command("doctor")
    assert ended.code == 0, ended.out
    lines = ended.out.splitlines()
    assert lines[-1].startswith("everything is well")
    names = [line[7:17].strip() for line in lines[:-1] if line[:1] != " "]
    on_rabbit = each_pipeline.settings["INFERQ_BROKER_URL"].startswith("amqp")
    rabbit = ["alarms", "management"] if on_rabbit else []
    assert names == [
        "python", "settings", "notifier", "batcher-1", "ingress", "ports", "redis", "memory", "broker", "queues",
        *rabbit, "model", "loaded", "device", "disk", "clock", "direct", "one job",
    ]  # fmt: skip  # the order of the checks
    # The shared node's management is not where its port alone would have it sought.
    assert {line[7:17].strip() for line in lines if line.startswith("note")} <= {*rabbit, "disk"}
    assert not [line for line in lines[:-1] if line.startswith("wrong")]
    assert not [line for line in lines if len(line) > 80 and " " in line[18:].strip()]
    told = json.loads((await each_pipeline.command("doctor", "--json")).out)
    assert (told["well"], told["wrong"]) == (True, 0)
    assert [finding["name"] for finding in told["findings"]] == names
    assert all(set(finding) == {"name", "grade", "detail", "cure"} for finding in told["findings"])
    broker = each_pipeline.settings["INFERQ_BROKER_URL"]
    if "@" in broker:
        assert broker.partition("@")[0].rpartition(":")[2] not in ended.out


async def test_doctor_names_what_is_wrong_and_the_cure() -> None:
    """With nothing running, each missing part is wrong and says what to do; exit 1."""
    settings = {
        "redis_url": "redis://:hunter2@127.0.0.1:1/0",
        "ingress_port": "1",
        "notifier_port": "2",
        "batcher_port": "3",
    }
    ended = await command("doctor", settings={**settings, "model": "simulated:1,1"})
    assert ended.code == 1
    assert "wrong  ingress    127.0.0.1:1: nothing listens there" in ended.out
    assert "wrong  redis      redis://***@127.0.0.1:1/0: " in ended.out
    assert "cure: start that Redis, or correct INFERQ_REDIS_URL" in ended.out
    assert "wrong  one job" in ended.out
    assert "hunter2" not in ended.out + ended.err


async def test_a_dead_letter_is_shown_replayed_and_dropped(each_pipeline: Up) -> None:
    """A job that kills the engine is listed with its reason, runs again under a new id, and can be dropped."""
    job_id = await each_pipeline.submit("[[crash]]")
    assert (await each_pipeline.pushed(job_id))["status"] == "failed"

    async def letters() -> dict[str, dict[str, object]]:
        ended = await each_pipeline.command("dead", "list", "--json")
        assert ended.code == 0, ended.err
        return {letter["job_id"]: letter for letter in map(json.loads, ended.out.splitlines())}

    async def is_kept() -> bool:
        return job_id in await letters()

    await eventually(is_kept, what="the dead letter")
    assert (await letters())[job_id]["reason"] == "engine_crashed"
    listed = await each_pipeline.command("dead", "list")
    assert job_id in listed.out
    shown = await each_pipeline.command("dead", "show", job_id)
    assert shown.code == 0
    assert "[[crash]]" in shown.out
    assert shown.out.count("history") == 3

    replayed = await each_pipeline.command("dead", "replay", job_id)
    assert replayed.code == 0, replayed.err
    old, _, new = replayed.out.strip().partition(" -> ")
    assert old == job_id
    record = await each_pipeline.pushed(new)
    assert (record["status"], record["error"]["code"]) == ("failed", "engine_crashed")

    async def died_again() -> bool:
        return set(await letters()) == {new}

    await eventually(died_again, what="the dead letter of the replayed job")
    asked = await each_pipeline.command("dead", "drop", "--all", stdin="n\n")
    assert asked.code == 1
    dropped = await each_pipeline.command("dead", "drop", new, job_id)
    assert dropped.code == 1
    assert dropped.out == "1 dropped\n"
    assert dropped.err == f"inferq: there is no dead letter of job {job_id}\n"
    emptied = await each_pipeline.command("dead", "drop", "--all", "--yes")
    assert (emptied.code, emptied.out) == (0, "0 dropped\n")


async def test_a_letter_that_cannot_be_read_is_not_replayed(pipeline: Up) -> None:
    """A message of another version is dead-lettered; a replay says why it cannot be, and leaves it where it is."""
    job_id = "f" * 32
    async with Redis.from_url(pipeline.settings["INFERQ_REDIS_URL"]) as redis:
        await redis.xadd("inference.requests", {"m": f'{{"v":99,"job_id":"{job_id}"}}'})

    async def is_kept() -> bool:
        return job_id in (await pipeline.command("dead", "list")).out

    await eventually(is_kept, what="the dead letter")
    ended = await pipeline.command("dead", "replay", job_id)
    assert ended.code == 1
    assert ended.err == (
        f"inferq: {job_id} stays: cannot run again: version 99 of the queue message is not understood, only 1 to 3\n"
    )
    dropped = await pipeline.command("dead", "drop", job_id)
    assert (dropped.code, dropped.out) == (0, "1 dropped\n")
