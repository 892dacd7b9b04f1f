"""Equal inputs in one batcher run once: side by side, one behind the other, and later."""

from typing import Any

import pytest
from msgspec import to_builtins

from inferq.cachekey import cache_key
from inferq.jobs import ErrorCode, Priority, Result, Status
from inferq.steps import cancel
from inferq.store import wall_ms
from tests.batcherrig import MakeRig, on_streams
from tests.support import eventually


async def test_equal_inputs_in_the_window_are_one_row(make_rig: MakeRig) -> None:
    """Of 64 equal jobs that wait, all are done by one run with one row, and each has the same answer."""
    rig = await make_rig(max_batch_size="32")
    async with rig.batcher("simulated:1500,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        jobs = await rig.submit_all(["the same"] * 64)
        records = await rig.ended([blocker, *jobs])
        await one.idle()
        assert [len(run.rows) for run in one.engine.runs] == [1, 1]
    first, *same = records
    assert {record.status for record in same} == {Status.DONE}
    assert all(record.result == same[0].result for record in same)
    assert {(record.batch.id, record.batch.size) for record in same if record.batch} == {("b0-2", 1)}
    assert {record.cached for record in same} == {False}
    assert {record.attempt for record in same} == {1}
    assert first.result != same[0].result
    assert await rig.nothing_left()


async def test_an_equal_input_that_arrives_during_the_run_follows_it(make_rig: MakeRig) -> None:
    """It is answered by the run that is under way, has that batch and a start of its own, and costs no run."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        leader = await rig.submit("the same")
        await one.computing("the same")
        with one.frozen():
            followers = await rig.submit_all(["the same"] * 3)
            await one.holds(*followers)
        records = await rig.ended([leader, *followers])
        await one.idle()
        assert len(one.engine.runs) == 1
    assert {record.status for record in records} == {Status.DONE}
    assert all(record.result == records[0].result for record in records)
    assert all(record.batch == records[0].batch for record in records)
    assert {record.attempt for record in records} == {1}
    assert all(record.started_at is not None and record.timings_ms is not None for record in records)
    assert await rig.nothing_left()


async def test_a_later_equal_input_is_answered_from_the_cache(make_rig: MakeRig) -> None:
    """It is done without a batch, says so, and all its times but the wait in the queue are next to nothing."""
    rig = await make_rig()
    async with rig.batcher() as one:
        first = await rig.ended_one(await rig.submit("the same"))
        later = await rig.ended_one(await rig.submit("the same"))
        await one.idle()
        assert len(one.engine.runs) == 1
    assert (first.cached, later.cached) == (False, True)
    assert later.status is Status.DONE
    assert later.batch is None
    assert later.result == first.result
    assert later.seq == first.seq
    assert later.attempt == 1
    assert later.timings_ms is not None
    # The look-up takes the place of the run.
    assert 0 < later.timings_ms.inference < 1
    assert await rig.nothing_left()


@on_streams
async def test_a_job_may_ask_to_be_run(make_rig: MakeRig) -> None:
    """With its cache switched off it neither follows, nor is found, nor has twins."""
    rig = await make_rig()
    async with rig.batcher("simulated:500,0") as one:
        jobs = [await rig.submit("the same")]
        await one.computing("the same")
        jobs += await rig.submit_all(["the same"] * 2, cache=False)
        await rig.ended(jobs)
        jobs.append(await rig.submit("the same", cache=False))
        records = await rig.ended(jobs)
        assert [len(run.rows) for run in one.engine.runs] == [1, 2, 1]
    assert {record.cached for record in records} == {False}
    assert all(record.result == records[0].result for record in records)


@on_streams
async def test_a_deployment_may_run_everything(make_rig: MakeRig) -> None:
    """With INFERQ_CACHE=off equal jobs are rows of their own, now and later."""
    rig = await make_rig(cache="off")
    async with rig.batcher("simulated:500,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        jobs = await rig.submit_all(["the same"] * 3)
        await rig.ended([blocker, *jobs])
        later = await rig.ended_one(await rig.submit("the same"))
        assert [len(run.rows) for run in one.engine.runs] == [1, 3, 1]
    assert later.cached is False


@on_streams
async def test_errors_are_not_cached(make_rig: MakeRig) -> None:
    """A text that fails is run again when it comes again."""
    rig = await make_rig()
    async with rig.batcher() as one:
        for _ in range(2):
            record = await rig.ended_one(await rig.submit("[[raise]]"))
            assert record.error is not None
            assert record.error.code is ErrorCode.INFERENCE_FAILED
        assert len(one.engine.runs) == 2
        assert one.tally.totals.count == 0


@on_streams
async def test_followers_of_a_job_that_fails_run_by_themselves(make_rig: MakeRig) -> None:
    """Who waited for an answer that never came gets a run of its own, and its own error."""
    rig = await make_rig(engine_timeout_ms="1000", max_attempts="1")
    async with rig.batcher() as one:
        leader = await rig.submit("[[hang]]")
        await one.computing("[[hang]]")
        follower = await rig.submit("[[hang]]")
        records = await rig.ended([leader, follower])
        await one.idle()
        assert len(one.engine.runs) == 2
    assert [record.error.code for record in records if record.error] == [ErrorCode.ENGINE_TIMEOUT] * 2
    assert [record.attempt for record in records] == [1, 1]
    assert await rig.nothing_left()


async def test_a_cancelled_leader_leaves_its_followers_an_answer(make_rig: MakeRig) -> None:
    """The client of the job that computes cancels it: its own record stays cancelled, the others' are done."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        leader = await rig.submit("the same")
        await one.computing("the same")
        with one.frozen():
            follower = await rig.submit("the same")
            await one.holds(follower)
            assert (await rig.store.move(cancel(leader))).applied
        records = await rig.ended([leader, follower])
        await one.idle()
        assert len(one.engine.runs) == 1
    assert [record.status for record in records] == [Status.CANCELLED, Status.DONE]
    assert await rig.nothing_left()


async def test_equals_of_a_job_that_ended_before_its_run_still_run_once(make_rig: MakeRig) -> None:
    """The first of equal jobs is cancelled before a batcher sees it, the next has expired: one run for the others."""
    rig = await make_rig()
    cancelled = await rig.submit("the same")
    expired = await rig.submit("the same", deadline_ms=int(wall_ms()) - 1)
    others = await rig.submit_all(["the same"] * 20)
    assert (await rig.store.move(cancel(cancelled))).applied
    async with rig.batcher() as one:
        records = await rig.ended([cancelled, expired, *others])
        await one.idle()
        assert [len(run.rows) for run in one.engine.runs] == [1]
    assert [record.status for record in records[:2]] == [Status.CANCELLED, Status.EXPIRED]
    assert {record.status for record in records[2:]} == {Status.DONE}
    assert [record.attempt for record in records[:2]] == [0, 0]
    assert await rig.nothing_left()


@on_streams
async def test_twins_and_followers_keep_their_own_deadlines(make_rig: MakeRig) -> None:
    """One whose time is over expires, and takes no equal with it."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        leader = await rig.submit("the same")
        await one.computing("the same")
        with one.frozen():
            soon = int(wall_ms()) + 500
            late_follower, late_twin = await rig.submit_all(["the same", "another"], deadline_ms=soon)
            follower, *twins = await rig.submit_all(["the same", "another", "another"])
            await one.holds(late_follower, follower, *twins)
            await eventually(lambda: wall_ms() > soon, what="the deadline")
        records = await rig.ended([leader, follower, *twins, late_follower, late_twin])
        await one.idle()
        assert len(one.engine.runs) == 2
    assert [record.status for record in records] == [*[Status.DONE] * 4, *[Status.EXPIRED] * 2]
    assert await rig.nothing_left()


@on_streams
async def test_twins_may_be_of_either_priority(make_rig: MakeRig) -> None:
    """A bulk job is answered with the interactive one that it equals, and does not wait for bulk's turn."""
    rig = await make_rig(max_batch_size="1")
    async with rig.batcher("simulated:1000,0") as one:
        await rig.submit("blocker")
        await one.computing("blocker")
        bulk = await rig.submit_all(["other", "the same"], priority=Priority.BULK)
        interactive = await rig.submit("the same")
        records = await rig.ended([*bulk, interactive])
        assert len(one.engine.runs) == 3
        assert [run.has("the same") for run in one.engine.runs] == [False, True, False]
    assert records[1].batch == records[2].batch


@on_streams
async def test_an_interactive_job_does_not_follow_a_bulk_one_that_stands_back(make_rig: MakeRig) -> None:
    """A bulk batch that is begun lets interactive jobs go first; an interactive equal of it is not held up with it."""
    # Each runs by itself, and all have room in the prefetch.
    rig = await make_rig(max_batch_size="2", max_batch_tokens="1")
    texts = ["first", "the same", "second", "third"]
    async with rig.batcher("simulated:100,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        # Overdue, so that the next batch of each kind is begun and waits for the lane.
        with one.frozen():
            bulk = await rig.submit("the same", priority=Priority.BULK)
            await eventually(lambda: bulk in one.worker._out, what="the bulk job's start")
            jobs = await rig.submit_all(texts)
            await one.holds(*jobs)
        records = await rig.ended([blocker, bulk, *jobs])
        await one.idle()
        order = [text for run in one.engine.runs for text in texts if run.has(text)]
    assert {record.status for record in records} == {Status.DONE}
    assert order[:4] == texts
    assert await rig.nothing_left()


@on_streams
async def test_followers_of_a_job_that_expires_before_its_run_share_one(make_rig: MakeRig) -> None:
    """A job that is begun waits for its lane until its deadline has passed: its followers still run once together."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        with one.frozen():
            soon = int(wall_ms()) + 1000
            leader = await rig.submit("the same", deadline_ms=soon)
            await eventually(lambda: leader in one.worker._out, what="the leader's start")
            followers = await rig.submit_all(["the same"] * 3)
            await one.holds(*followers)
            await eventually(lambda: wall_ms() > soon, what="the deadline")
        records = await rig.ended([blocker, leader, *followers])
        await one.idle()
        assert [len(run.rows) for run in one.engine.runs_of("the same")] == [1]
    assert [record.status for record in records[1:]] == [Status.EXPIRED, *[Status.DONE] * 3]
    assert await rig.nothing_left()


@on_streams
@pytest.mark.parametrize("cache", ["shared", "local"])
async def test_results_are_kept_in_redis_where_that_is_wanted(make_rig: MakeRig, cache: str) -> None:
    """With `shared`, under the digest of model and input, as long as results; what is there already stands."""
    rig = await make_rig(cache=cache)
    names, redis = rig.settings.names, rig.store.redis
    stands = Result(label="POSITIVE", score=0.5, scores={"NEGATIVE": 0.5, "POSITIVE": 0.5}, truncated=False)
    await rig.store.keep_results({key_of("stands"): stands})
    async with rig.batcher() as one:
        texts = ["fresh", "stands", "[[raise]]"]
        fresh, other, _ = await rig.ended(await rig.submit_all(texts))
        await one.idle()
        kept = [await rig.store.cached_result(key_of(text)) for text in texts]
        ttl_s: Any = await redis.ttl(names.cache(key_of("fresh")))
    assert [one and to_builtins(one) for one in kept] == [
        fresh.result if cache == "shared" else None,
        to_builtins(stands),
        None,
    ]
    assert (0 < ttl_s <= 600) == (cache == "shared")
    assert other.result != to_builtins(stands)


def key_of(text: str) -> str:
    """Return the cache key of a text, as the rig's batchers have it."""
    return cache_key(model_digest="simulated:1,0.1,faults", precision="fp32", text=text)
