"""Records in the real Valkey: every move of the lifecycle, its event, its times to live, and what is lost."""

import asyncio
import calendar
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from inferq.errors import Unavailable
from inferq.jobs import FINAL, TRANSITIONS, ErrorCode, Move, Result, Status, Timings, decode_record, isoformat
from inferq.moves import MOST_JOBS
from inferq.scripts import PUBLIC_FIELDS, record_script
from inferq.steps import Origin, Step, cancel, charge_entry, expire, fail, finish, give_back, start
from inferq.store import FIRST_LOOK_MS, GRACE_S, wall_ms
from tests.deployment import ALL_TIME_MS, Deployment, finished
from tests.ear import listening

STEPS: dict[Move, Callable[[Origin], Step]] = {
    Move.START: start,
    Move.GIVE_BACK: lambda origin: give_back(origin.job.job_id),
    Move.FINISH: finished,
    Move.FAIL: lambda origin: fail(origin.job.job_id, ErrorCode.INFERENCE_FAILED, "no", origin=origin),
    Move.CANCEL: lambda origin: cancel(origin.job.job_id),
    Move.EXPIRE: lambda origin: expire(origin.job.job_id),
}
# How a record gets into each status.
WAYS: dict[Status, Sequence[Move]] = {
    Status.QUEUED: [],
    Status.RUNNING: [Move.START],
    Status.DONE: [Move.START, Move.FINISH],
    Status.FAILED: [Move.FAIL],
    Status.CANCELLED: [Move.CANCEL],
    Status.EXPIRED: [Move.EXPIRE],
}
ISO = record_script("return iso(tonumber(ARGV[1]))")


async def created(deployment: Deployment, status: Status = Status.QUEUED, **options: Any) -> Origin:
    """Make a record in a status."""
    origin = deployment.job(**options)
    await deployment.store.create(origin)
    for move in WAYS[status]:
        moved = await deployment.store.move(STEPS[move](origin))
        assert moved.applied
    return origin


async def raw(deployment: Deployment, origin: Origin) -> Any:
    """Read every field of a record, and how long it lives yet."""
    key = deployment.names.job(origin.job.job_id)
    return await deployment.redis.hgetall(key), await deployment.redis.pttl(key)


async def test_a_new_record_shows_what_the_contract_says(streams: Deployment) -> None:
    """A created record is queued with seq 1, no attempt and null for what is unknown, and is announced once."""
    async with listening(streams) as ear:
        origin = await created(streams, deadline_ms=4_102_444_800_007)
        (event,) = await ear.heard()
    record = await streams.record(origin.job.job_id)
    assert record == {
        "job_id": origin.job.job_id, "status": "queued", "seq": 1, "model": "builtin", "result": None,
        "error": None, "cached": False, "attempt": 0, "deadline_at": "2100-01-01T00:00:00.007Z",
        "created_at": isoformat(origin.job.created_ms), "started_at": None, "finished_at": None,
        "timings_ms": None, "batch": None,
    }  # fmt: skip  # as the contract lists them
    assert list(record) == ["job_id", *PUBLIC_FIELDS]
    assert (event.type, event.seq) == ("job.queued", 1)
    assert event.record == await streams.store.read(origin.job.job_id)


async def test_an_id_that_is_taken_is_refused(streams: Deployment) -> None:
    """A second record of one id is refused and leaves the first as it is."""
    origin = await created(streams, Status.RUNNING)
    before = await raw(streams, origin)
    with pytest.raises(Unavailable, match="taken"):
        await streams.store.create(origin)
    assert (await raw(streams, origin))[0] == before[0]


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("move", list(Move))
async def test_every_move_follows_the_table(streams: Deployment, status: Status, move: Move) -> None:
    """A move of the table changes status, seq and announces once; any other changes nothing and is not announced."""
    origin = await created(streams, status)
    store, job_id = streams.store, origin.job.job_id
    before, ttl_before = await raw(streams, origin)
    async with listening(streams) as ear:
        moved = await store.move(STEPS[move](origin))
        events = await ear.heard()
    after, ttl_after = await raw(streams, origin)
    if (status, move) not in TRANSITIONS:
        assert not moved.applied
        assert moved.status is status
        assert after == before
        assert ttl_after <= ttl_before
        assert events == []
        return
    target = TRANSITIONS[status, move]
    assert moved.applied
    assert moved.status is target
    assert moved.seq == int(after[b"seq"]) == int(before[b"seq"]) + 1
    assert moved.attempt == int(after[b"attempt"]) == int(before[b"attempt"]) + (move is Move.START)
    (event,) = events
    record = await store.read(job_id)
    assert (event.job_id, event.seq, event.type) == (job_id, moved.seq, f"job.{target}")
    assert event.record == record
    decoded = decode_record(event.record)
    assert decoded.final == (decoded.finished_at is not None) == (target in FINAL)
    assert (job_id in {job.job_id for job in await streams.open_jobs()}) == (target not in FINAL)
    if target in FINAL:
        assert 590_000 < ttl_after <= 600_000, "the result TTL"
        assert b"message" not in after
    else:
        assert ttl_after > 3_600_000, "the job TTL and its grace"


async def test_a_finished_record_holds_result_batch_and_timings(streams: Deployment) -> None:
    """A finish stores result, batch and timings as they were given, and stamps store and total itself."""
    origin = await created(streams, Status.RUNNING, created_ms=int(wall_ms()) - 2000)
    await streams.store.move(finished(origin))
    record = await streams.record(origin.job.job_id)
    assert record["result"] == {
        "label": "POSITIVE", "score": 0.75, "scores": {"NEGATIVE": 0.25, "POSITIVE": 0.75}, "truncated": False,
    }  # fmt: skip  # as the contract lists them
    assert record["batch"]["close_reason"] == "greedy"
    timings = record["timings_ms"]
    assert list(timings) == ["queue_wait", "batch_wait", "tokenize", "inference", "store", "total"]
    assert (timings["queue_wait"], timings["inference"]) == (1.25, 10.0)
    assert 2000 <= timings["total"] < 10_000
    assert 0 <= timings["store"] < 1000


async def test_a_result_that_was_found_says_so(streams: Deployment) -> None:
    """A job that a batcher answers from its cache was started like any other, and has no batch."""
    origin = await created(streams, Status.RUNNING)
    found = Result(label="a", score=1.0, scores={"a": 1.0}, truncated=False)
    none = Timings(queue_wait=1, batch_wait=0, tokenize=0, inference=0)
    await streams.store.move(
        finish(origin, result=found, timings=none, batch=None, ended_ms=wall_ms(), cached=True)
    )
    record = await streams.record(origin.job.job_id)
    assert (record["cached"], record["batch"], record["attempt"]) == (True, None, 1)
    assert record["result"]["label"] == "a"


async def test_a_failed_record_says_why(streams: Deployment) -> None:
    """The error of a failed job is a code and one line, whatever characters that line holds."""
    origin = await created(streams)
    detail = 'quotes " and \\ and \n and \x00 and ünïcode 👩‍🔬 %s %d'
    await streams.store.move(fail(origin.job.job_id, ErrorCode.INVALID_INPUT, detail))
    assert (await streams.record(origin.job.job_id))["error"] == {"code": "invalid_input", "detail": detail}


async def test_charges_are_counted_and_told_apart_from_starts(streams: Deployment) -> None:
    """Only a charged give-back counts as an attempt that was used up, and its history is kept in order."""
    origin = await created(streams)
    store, job_id = streams.store, origin.job.job_id
    await store.move(start(origin))
    assert (await store.move(give_back(job_id))).charges == 0
    entries = []
    for attempt in (1, 2):
        await store.move(start(origin))
        entry = charge_entry(
            attempt=attempt, code=ErrorCode.ENGINE_CRASHED, batcher="b", at_ms=int(wall_ms())
        )
        entries.append(msgspec.json.decode(entry))
        moved = await store.move(give_back(job_id, charge=True, history=entry))
    assert (moved.charges, moved.attempt, moved.seq) == (2, 3, 7)
    assert msgspec.json.decode(moved.history) == entries


async def test_a_burial_is_due_until_it_is_noted(streams: Deployment) -> None:
    """A job that failed for a dead letter says so on every refused move until the letter is kept."""
    origin = await created(streams, Status.RUNNING)
    store, job_id = streams.store, origin.job.job_id
    assert (await store.move(fail(job_id, ErrorCode.ENGINE_CRASHED, "x", bury=True))).burial_due
    assert (await store.move(start(origin))).burial_due
    await store.buried(job_id)
    again = await store.move(start(origin))
    assert not again.applied
    assert not again.burial_due


async def test_a_burial_makes_no_record(streams: Deployment) -> None:
    """Noting a burial of a record that is gone leaves nothing behind that would never go."""
    await streams.store.buried("0" * 32)
    assert await streams.redis.exists(streams.names.job("0" * 32)) == 0


@pytest.mark.parametrize("move", [Move.START, Move.FINISH, Move.FAIL])
async def test_a_lost_record_is_rebuilt_from_its_message(streams: Deployment, move: Move) -> None:
    """A start, finish or fail of a record that was lost makes it anew, with its times to live."""
    origin = streams.job(deadline_ms=int(wall_ms()) + 60_000)
    store, job_id = streams.store, origin.job.job_id
    moved = await store.move(STEPS[move](origin))
    assert moved.applied
    record = await streams.record(job_id)
    assert record["status"] == moved.status
    assert record["created_at"] == isoformat(origin.job.created_ms)
    assert record["deadline_at"] is not None
    assert record["seq"] == moved.seq
    assert record["attempt"] == 1
    fields, ttl_ms = await raw(streams, origin)
    open_ids = [job.job_id for job in await streams.open_jobs()]
    if move is Move.START:
        assert fields[b"message"] == origin.message
        assert open_ids == [job_id]
        assert ttl_ms > 3_600_000
    else:
        assert open_ids == []
        assert ttl_ms <= 600_000


@pytest.mark.parametrize("move", [Move.GIVE_BACK, Move.CANCEL, Move.EXPIRE])
async def test_a_lost_record_is_not_rebuilt_without_need(streams: Deployment, move: Move) -> None:
    """Moves that carry no job find no record, say so, and make none."""
    origin = streams.job()
    moved = await streams.store.move(STEPS[move](origin))
    assert not moved.applied
    assert moved.status is None
    assert await streams.record(origin.job.job_id) is None


async def test_of_two_answers_one_wins(streams: Deployment) -> None:
    """However many finish a job at once, one answer is stored and announced, and it stays."""
    origin = await created(streams, Status.RUNNING)
    labels = [f"L{number}" for number in range(20)]
    async with listening(streams) as ear:
        moves = await asyncio.gather(*(streams.store.move(finished(origin, label=label)) for label in labels))
        (event,) = await ear.heard()
    (winner,) = [label for label, moved in zip(labels, moves, strict=True) if moved.applied]
    assert decode_record(event.record).result == (await streams.record(origin.job.job_id))["result"]
    assert (await streams.record(origin.job.job_id))["result"]["label"] == winner


async def test_many_steps_are_answered_in_their_order(streams: Deployment) -> None:
    """Steps that travel together keep their order, and one that is refused harms no other."""
    good = [await created(streams, Status.RUNNING) for _ in range(5)]
    bad = await created(streams, Status.CANCELLED)
    steps = [finished(origin) for origin in [*good[:2], bad, *good[2:]]]
    moves = await streams.store.apply(steps)
    assert [moved.applied for moved in moves] == [True, True, False, True, True, True]
    assert await streams.store.apply([]) == []


async def test_more_steps_than_one_call_holds(streams: Deployment) -> None:
    """Each job of a large write moves once, is announced, and leaves the index when it has ended."""
    origins = [await created(streams) for _ in range(MOST_JOBS + 3)]
    async with listening(streams) as ear:
        begun = await streams.store.apply([start(origin) for origin in origins])
        ended = await streams.store.apply([finished(origin, label=origin.job.job_id) for origin in origins])
        events = await ear.heard()
    assert {(moved.applied, moved.seq, moved.attempt) for moved in begun} == {(True, 2, 1)}
    assert {(moved.applied, moved.seq, moved.attempt) for moved in ended} == {(True, 3, 1)}
    assert len(events) == 2 * len(origins)
    for origin in origins:
        assert (await streams.record(origin.job.job_id))["result"]["label"] == origin.job.job_id
    assert await streams.open_jobs() == []


async def test_a_foreign_key_harms_no_neighbour(streams: Deployment) -> None:
    """What is no hash, no record or no status of ours is refused by itself, and is left as it is."""
    good = [await created(streams) for _ in range(4)]
    text, bare, odd = [await created(streams) for _ in range(3)]
    keys = [streams.names.job(origin.job.job_id) for origin in (text, bare, odd)]
    await streams.redis.set(keys[0], "text")
    await streams.redis.hdel(keys[1], "model")
    await streams.redis.hset(keys[2], mapping={"status": "bogus"})
    before = [await streams.redis.dump(key) for key in keys]
    steps = [start(origin) for origin in (good[0], text, good[1], bare, good[2], odd, good[3])]
    moves = await streams.store.apply(steps)
    assert [moved.applied for moved in moves] == [True, False, True, False, True, False, True]
    assert [moved.foreign for moved in moves] == [False, True, False, True, False, True, False]
    assert [await streams.redis.dump(key) for key in keys] == before


async def test_an_index_that_is_none_is_nobodys_fault(streams: Deployment) -> None:
    """Where the whole call fails no job is blamed: whoever asked is told that the store is away."""
    origin = await created(streams, Status.RUNNING)
    await streams.redis.set(streams.names.open_jobs, "not a set")
    with pytest.raises(Unavailable):
        await streams.store.move(finished(origin))


async def test_lost_records_among_others(streams: Deployment) -> None:
    """Of steps that travel together those without a record are applied to one that is made anew, in their order."""
    kept, lost = await created(streams), streams.job()
    gone = streams.job()
    steps = [start(kept), start(lost), give_back(gone.job.job_id), finished(kept), finished(lost)]
    async with listening(streams) as ear:
        moves = await streams.store.apply(steps)
        events = await ear.heard()
    assert [moved.applied for moved in moves] == [True, True, False, True, True]
    assert [moved.status for moved in moves][2] is None
    heard = [event.type for event in events if event.job_id == lost.job.job_id]
    assert heard == ["job.queued", "job.running", "job.done"]
    record = await streams.record(lost.job.job_id)
    assert (record["status"], record["seq"], record["attempt"]) == ("done", 3, 1)
    assert await streams.record(gone.job.job_id) is None
    assert await streams.open_jobs() == []


async def test_a_job_past_its_deadline_expires_by_being_read(streams: Deployment) -> None:
    """Whoever reads a job whose time is over sees it expired, once and for all."""
    origin = await created(streams, deadline_ms=int(wall_ms()) - 1)
    fresh = await created(streams, deadline_ms=int(wall_ms()) + 60_000)
    async with listening(streams) as ear:
        late, alive, none = await streams.store.read_many([origin.job.job_id, fresh.job.job_id, "f" * 32])
        (event,) = await ear.heard()
    assert late is not None
    assert alive is not None
    assert none is None
    assert decode_record(late).status is Status.EXPIRED
    assert decode_record(alive).status is Status.QUEUED
    assert event.type == "job.expired"
    assert event.record == late


async def test_scripts_that_the_server_forgot_are_sent_again(streams: Deployment) -> None:
    """A server that lost its scripts, as after a restart, answers all the same."""
    await streams.redis.script_flush()
    origins = [await created(streams) for _ in range(3)]
    await streams.redis.script_flush()
    moves = await streams.store.apply([start(origin) for origin in origins])
    assert [(moved.applied, moved.attempt) for moved in moves] == [(True, 1)] * 3


async def test_open_jobs_are_found_when_their_look_is_due(streams: Deployment) -> None:
    """A new job is looked at after its first wait, and then whenever it was put off to."""
    store = streams.store
    now = int(wall_ms())
    old = await created(streams, created_ms=now - FIRST_LOOK_MS - 2000)
    young = await created(streams, created_ms=now)
    short = await created(streams, created_ms=now - 500, deadline_ms=now - 100)
    (due,) = [job for job in await store.due(now, 10) if job.job_id == old.job.job_id]
    assert (due.queue, due.message, due.created_ms) == (old.queue, old.message, old.job.created_ms)
    assert due.due_ms == old.job.created_ms + 3600 * 1000
    assert [job.job_id for job in await store.due(now, 10)] == [old.job.job_id, short.job.job_id]
    assert [job.job_id for job in await store.due(now, 1)] == [old.job.job_id], "the oldest first"
    await store.look_again({old.job.job_id: now + 1000.5, young.job.job_id: now - 1})
    assert [job.job_id for job in await store.due(now, 10)] == [short.job.job_id, young.job.job_id]
    assert {job.job_id for job in await store.due(now + 1001, 10)} >= {old.job.job_id}


async def test_a_job_that_ended_stays_out_of_the_index(streams: Deployment) -> None:
    """Putting off the look at a job that ended meanwhile does not bring it back."""
    origin = await created(streams, Status.DONE)
    await streams.store.look_again({origin.job.job_id: 1.0})
    assert await streams.open_jobs() == []


async def test_a_record_that_vanished_leaves_the_index(streams: Deployment) -> None:
    """An entry of the index without a record, or with a final one, is dropped at the first look."""
    gone, kept = await created(streams), await created(streams)
    await streams.redis.delete(streams.names.job(gone.job.job_id))
    ended = await created(streams, Status.DONE)
    await streams.redis.zadd(streams.names.open_jobs, {ended.job.job_id: 1.0})
    assert [job.job_id for job in await streams.store.due(ALL_TIME_MS, 10)] == [kept.job.job_id]
    assert await streams.redis.zcard(streams.names.open_jobs) == 1


async def test_times_to_live(streams: Deployment) -> None:
    """An open record outlives its job TTL by the grace, a final one is kept for the result TTL."""
    store = streams.store_at(streams.redis_url, job_ttl_s=100, result_ttl_s=7)
    origin = streams.job()
    await store.create(origin)
    ttl_s = await streams.redis.ttl(streams.names.job(origin.job.job_id))
    assert 0 <= 100 + GRACE_S - ttl_s <= 5
    await store.move(start(origin))
    await store.move(finished(origin))
    assert 0 < await streams.redis.ttl(streams.names.job(origin.job.job_id)) <= 7


async def test_lua_and_python_write_the_same_times(streams: Deployment) -> None:
    """The script's calendar is Python's, leap years, centuries and ends of months included."""
    random.seed(20)
    instants = [0, 1, 999, 1000, 951_782_400_000, 4_107_542_399_999, 253_402_300_799_999]
    for year in (1970, 1972, 1999, 2000, 2001, 2023, 2024, 2026, 2099, 2100, 2101, 2400, 9999):
        for month in range(1, 13):
            for day in (1, calendar.monthrange(year, month)[1]):
                begin = int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000
                instants += [begin, begin + 86_399_999]
    instants += [random.randrange(253_402_300_799_999) for _ in range(500)]
    pipe = streams.redis.pipeline(transaction=False)
    for instant in instants:
        pipe.eval(ISO.text, 0, instant)
    for instant, found in zip(instants, await pipe.execute(), strict=True):
        assert found.decode() == f'"{isoformat(instant)}"', instant


async def test_stamps_are_the_servers_clock(streams: Deployment) -> None:
    """started_at and finished_at are the server's time, in milliseconds and in order."""
    origin = await created(streams)
    await streams.store.move(start(origin))
    await streams.store.move(finished(origin))
    record = decode_record(await streams.store.read(origin.job.job_id) or b"")
    seconds, micros = await streams.redis.time()
    now = datetime.fromtimestamp(seconds + micros / 1e6, UTC)
    assert record.started_at is not None
    assert record.finished_at is not None
    assert record.started_at <= record.finished_at <= now
    assert (now - record.started_at).total_seconds() < 10


async def test_a_reply_that_nobody_waited_for_goes_to_nobody(streams: Deployment) -> None:
    """Reads that were cancelled in flight leave no reply behind for the next reader."""
    origins = [await created(streams) for _ in range(40)]
    ids = [origin.job.job_id for origin in origins]
    for round_number in range(5):
        reads = [asyncio.create_task(streams.store.read(job_id)) for job_id in ids]
        for _ in range(round_number):
            await asyncio.sleep(0)
        for read in reads[::2]:
            read.cancel()
        answers = await asyncio.gather(*reads, return_exceptions=True)
        for job_id, answer in zip(ids[1::2], answers[1::2], strict=True):
            assert isinstance(answer, bytes)
            assert msgspec.json.decode(answer)["job_id"] == job_id
    assert msgspec.json.decode(await streams.store.read(ids[0]) or b"")["job_id"] == ids[0]


async def test_a_server_that_answers_wrongly_is_unavailable(streams: Deployment) -> None:
    """A key that holds something else is no record, or an error in our words; never a crash of the caller."""
    known = (await created(streams)).job.job_id
    await streams.redis.set(streams.names.job("a" * 32), "not a hash")
    foreign, record = await streams.store.read_many(["a" * 32, known])
    assert foreign is None
    assert record is not None
    moved = await streams.store.move(cancel("a" * 32))
    assert (moved.applied, moved.foreign) == (False, True)
    await streams.redis.set(streams.names.open_jobs, "not a set")
    with pytest.raises(Unavailable):
        await streams.open_jobs()


async def test_a_read_that_is_refused_says_nothing_of_the_record(streams: Deployment) -> None:
    """It is an error: whoever took it for missing would tell that the job is gone."""
    job_id = (await created(streams)).job.job_id
    user, admin = f"{streams.names.namespace}r", streams.redis.commands
    await admin.call("ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", "-hmget")
    try:
        store = streams.store_at(streams.redis_url.replace("redis://", f"redis://{user}:pw@"))
        with pytest.raises(Unavailable):
            await store.read(job_id)
    finally:
        await admin.call("ACL", "DELUSER", user)


async def test_what_is_no_record_leaves_the_index_and_is_nobodys(streams: Deployment) -> None:
    """Foreign keys under our names harm nothing: they are not read as jobs, and the sweeper forgets them."""
    names, redis = streams.store.names, streams.store.redis
    await redis.set(names.job("a" * 32), "text")
    await redis.hset(names.job("b" * 32), mapping={"status": "bogus"})
    await redis.hset(names.job("c" * 32), mapping={"status": "queued"})
    await redis.zadd(names.open_jobs, {letter * 32: 1 for letter in "abc"})
    assert await streams.store.due(wall_ms(), 10) == []
    assert await redis.zcard(names.open_jobs) == 0
    assert await streams.store.read("b" * 32) is None
