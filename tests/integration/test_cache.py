"""The shared cache: results kept in Redis, and jobs that the ingress answers with them, on both brokers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from inferq.cachekey import cache_key
from inferq.errors import Unavailable
from inferq.heartbeats import CacheTotals
from inferq.jobs import Result
from inferq.messages import decode_job
from inferq.store import wall_ms
from tests.deployment import Deployment, Inbox
from tests.ear import listening
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

RESULT: Final = Result(label="é", score=0.75, scores={"é": 0.75, "b": 0.25}, truncated=True)
OTHER: Final = Result(label="b", score=0.5, scores={"b": 0.5}, truncated=False)
TEXT: Final = "I loved it"
DIGEST: Final = "d1"


def key_of(text: str = TEXT, *, digest: str = DIGEST, precision: str = "fp32") -> str:
    """Return the key under which a batcher keeps the result of a text."""
    return cache_key(model_digest=digest, precision=precision, text=text)


@asynccontextmanager
async def caching(deployment: Deployment, **options: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run an ingress with the shared cache beside one living batcher, which is seen."""
    await deployment.beat(name="b1", digest=DIGEST)
    async with serving(deployment, INFERQ_CACHE="shared", **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        await eventually(lambda: sees(client, deployment, DIGEST), what="a look at the batchers")
        yield client


async def sees(client: httpx.AsyncClient, deployment: Deployment, *digests: str) -> bool:
    """Renew the heartbeats of these batchers; say whether they are found, and a lookup is made, only if they agree."""
    for digest in digests:
        await deployment.beat(name=f"b-{digest}", digest=digest)
    await deployment.beat(name="b1", digest=digests[0])
    before = await lookups(client)
    # Looked up or not, it may be refused by a full queue.
    await client.post("/v1/infer", json={"text": f"never seen {time.monotonic()}"})
    return (await lookups(client) > before) is (len(set(digests)) == 1)


async def submitted(client: httpx.AsyncClient, *, text: str = TEXT, **headers: str) -> dict[str, Any]:
    """Submit a text, which has to be accepted; return the answer."""
    response = await client.post("/v1/infer", json={"text": text, "deadline_ms": 60_000}, headers=headers)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def counted(client: httpx.AsyncClient, sample: str) -> float:
    """Read a sample of the metrics; 0 when it is not there yet."""
    lines = (await client.get("/metrics")).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample))


async def lookups(client: httpx.AsyncClient, outcome: str = "") -> float:
    """Count lookups: all, or those with an outcome."""
    place = 'inferq_cache_total{outcome="' + (f'{outcome}",place="shared"' if outcome else "")
    return await counted(client, place)


async def test_the_first_result_that_was_kept_stands(streams: Deployment) -> None:
    """A second one for the same key changes neither the result nor how long it is kept."""
    store, key = streams.store, key_of()
    assert await store.cached_result(key) is None
    await store.keep_results({})
    await store.keep_results({key: RESULT, key_of("b"): OTHER})
    await streams.redis.expire(streams.names.cache(key), 100)
    await store.keep_results({key: OTHER})
    assert await store.cached_result(key) == RESULT
    assert await store.cached_result(key_of("b")) == OTHER
    assert 0 < await streams.redis.ttl(streams.names.cache(key)) <= 100
    assert 590 < await streams.redis.ttl(streams.names.cache(key_of("b"))) <= 600, "the result TTL"


@pytest.mark.parametrize("value", [b"", b"\xff", b"null", b'{"label":"a"}', b"[" * 10_000])
async def test_what_is_no_result_is_none(streams: Deployment, value: bytes) -> None:
    """A value that somebody else wrote, or half of one, is as good as none."""
    await streams.redis.set(streams.names.cache(key_of()), value)
    assert await streams.store.cached_result(key_of()) is None


async def test_a_key_of_another_type_is_none(streams: Deployment) -> None:
    """Neither reading nor keeping stumbles over it."""
    await streams.redis.hset(streams.names.cache(key_of()), "a", "b")
    await streams.store.keep_results({key_of(): RESULT})
    assert await streams.store.cached_result(key_of()) is None


async def test_without_redis_the_cache_is_unavailable(streams: Deployment) -> None:
    """Whoever keeps or looks up is told in our words."""
    async with proxied(streams.redis_url) as (proxy, url):
        store = streams.store_at(url)
        await proxy.cut()
        with pytest.raises(Unavailable):
            await store.keep_results({key_of(): RESULT})
        with pytest.raises(Unavailable):
            await store.cached_result(key_of())
        with pytest.raises(Unavailable):
            await store.answer(streams.job().job, RESULT)


async def test_an_id_that_is_taken_is_not_answered(streams: Deployment) -> None:
    """An answer never overwrites a record."""
    origin = streams.job()
    await streams.store.create(origin)
    with pytest.raises(Unavailable, match="taken"):
        await streams.store.answer(origin.job, RESULT)
    assert await streams.status(origin.job.job_id) == "queued"


async def test_a_known_answer_is_given_at_once(either: Deployment) -> None:
    """The record is done from the first, announced once and kept as long as any result; no queue ever sees the job."""
    await either.store.keep_results({key_of(): RESULT})
    async with caching(either, INFERQ_RESULT_TTL_S="77") as client:
        before = int(wall_ms())
        async with listening(either) as ear:
            answer = await submitted(client)
            (event,) = await ear.heard()
        assert answer["status"] == "done"
        assert answer["status_url"] == f"/v1/jobs/{answer['job_id']}"
        response = await client.get(answer["status_url"])
        assert response.content == event.record == await either.store.read(answer["job_id"])
        assert (event.type, event.job_id, event.seq) == ("job.done", answer["job_id"], 1)
        record = response.json()
        timings = record.pop("timings_ms")
        assert record.pop("created_at") <= record.pop("finished_at") <= record.pop("deadline_at")
        assert record == {
            "job_id": answer["job_id"], "status": "done", "seq": 1, "model": "builtin",
            "result": {"label": "é", "score": 0.75, "scores": {"é": 0.75, "b": 0.25}, "truncated": True},
            "error": None, "cached": True, "attempt": 0, "started_at": None, "batch": None,
        }  # fmt: skip  # as the contract lists them
        assert 0 <= timings.pop("total") <= wall_ms() - before + 2
        assert timings == {"queue_wait": 0, "batch_wait": 0, "tokenize": 0, "inference": 0, "store": 0}
        key = either.names.job(answer["job_id"])
        assert 70 < await either.redis.ttl(key) <= 77
        assert answer["job_id"] not in {job.job_id for job in await either.open_jobs()}
        after = await submitted(client, text="not known")
        inbox = Inbox()
        await either.consumer(await either.broker(limit_jobs=10_000), inbox)
        await inbox.receives(after["job_id"])
        assert answer["job_id"] not in inbox.ids
        assert await lookups(client, "hit") == 1
        assert await counted(client, 'inferq_jobs_total{status="done"}') == 1


async def test_a_full_queue_does_not_keep_back_what_is_known(either: Deployment) -> None:
    """An answer that needs no queue is given, however many wait."""
    await either.store.keep_results({key_of(): RESULT})
    async with caching(either, INFERQ_QUEUE_LIMIT="1") as client:

        async def full() -> bool:
            return (await client.post("/v1/infer", json={"text": "x"})).status_code == 503

        await eventually(full, what="a full queue")
        assert (await submitted(client))["status"] == "done"


async def test_whoever_wants_a_fresh_answer_gets_one(either: Deployment) -> None:
    """With no-cache, in whatever case, the job is queued, and its message says so; without, it is answered."""
    await either.store.keep_results({key_of(): RESULT})
    async with caching(either) as client:
        before = await lookups(client)
        fresh = await submitted(client, **{"Cache-Control": "max-age=0, No-Cache"})
        assert fresh["status"] == "queued"
        assert await lookups(client) == before
        plain = await submitted(client, text="not known")
        inbox = Inbox()
        await either.consumer(await either.broker(limit_jobs=10_000), inbox)
        await inbox.receives(fresh["job_id"], plain["job_id"])
        said = {job.job_id: job.cache for job in (decode_job(one.body) for one in inbox.got)}
        assert (said[fresh["job_id"]], said[plain["job_id"]]) == (False, True)
        assert (await submitted(client, **{"Cache-Control": "max-age=0"}))["status"] == "done"


@pytest.mark.parametrize("cache", ["off", "local"])
async def test_only_a_shared_cache_is_asked(streams: Deployment, cache: str) -> None:
    """With the other settings the ingress enqueues whatever is known."""
    await streams.store.keep_results({key_of(): RESULT})
    await streams.beat(name="b1", digest=DIGEST)
    async with serving(streams, INFERQ_CACHE=cache) as client:
        await eventually(lambda: ready(client), what="readiness")

        async def seen() -> bool:
            return bool((await client.get("/v1/stats")).json()["batchers"])

        await eventually(seen, what="the batcher")
        assert (await submitted(client))["status"] == "queued"
        assert await lookups(client) == 0


async def test_batchers_that_disagree_have_no_common_answer(streams: Deployment) -> None:
    """While two models are served at once nothing is answered from the cache; once they agree again, it is."""
    await streams.store.keep_results({key_of(): RESULT})
    async with caching(streams) as client:
        assert (await submitted(client))["status"] == "done"
        await eventually(lambda: sees(client, streams, DIGEST, "d2"), what="the other batcher")
        assert (await submitted(client))["status"] == "queued"
        await streams.redis.hdel(streams.names.batchers, "b-d2")
        await eventually(lambda: sees(client, streams, DIGEST), what="its end")
        assert (await submitted(client))["status"] == "done"


async def test_another_precision_is_another_answer(streams: Deployment) -> None:
    """What was computed in int8 is no answer of a model in fp32."""
    await streams.store.keep_results({key_of(precision="int8"): RESULT})
    async with caching(streams) as client:
        assert (await submitted(client))["status"] == "queued"


async def test_a_corrupted_value_is_a_miss(streams: Deployment) -> None:
    """The job is queued as if nothing had been there."""
    await streams.redis.set(streams.names.cache(key_of()), b'{"label":')
    async with caching(streams) as client:
        before = await lookups(client, "miss")
        assert (await submitted(client))["status"] == "queued"
        assert await lookups(client, "miss") == before + 1


async def test_a_slow_redis_is_a_miss(either: Deployment) -> None:
    """A lookup that takes too long is given up, and the submit goes on without it."""
    await either.store.keep_results({key_of(): RESULT})
    async with proxied(either.redis_url) as (proxy, url):
        await either.beat(name="b1", digest=DIGEST)
        async with serving(either, redis_url=url, INFERQ_CACHE="shared") as client:
            await eventually(lambda: ready(client), what="readiness")
            await eventually(lambda: sees(client, either, DIGEST), what="a look at the batchers")
            assert (await submitted(client))["status"] == "done"
            before = await lookups(client, "error")
            proxy.freeze()
            submit = asyncio.create_task(submitted(client))

            async def given_up() -> bool:
                return await lookups(client, "error") == before + 1

            await eventually(given_up, what="the end of the lookup")
            proxy.resume()
            assert (await submit)["status"] == "queued"


async def test_statistics_sum_all_lookups(streams: Deployment) -> None:
    """Hits and misses are those of every batcher and every ingress together."""
    await streams.store.keep_results({key_of(): RESULT})
    async with caching(streams) as client:
        await submitted(client)
        await submitted(client)
        hits, misses = await lookups(client, "hit"), await lookups(client, "miss")
        assert (hits, misses > 0) == (2, True)

        async def summed() -> bool:
            await streams.beat(name="b1", digest=DIGEST, cache=CacheTotals(hits=10, misses=20))
            found = (await client.get("/v1/stats")).json()["cache"]
            return bool(found == {"hits": 10 + hits, "misses": 20 + misses})

        await eventually(summed, what="the sum")
