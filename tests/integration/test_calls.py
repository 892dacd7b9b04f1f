"""Synchronous calls over HTTP: through the pipeline, and on a batcher past the queue."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from inferq.catalog import Catalog, ModelCard, Task
from inferq.errors import HttpError, Unauthorized, Unavailable, first_of
from inferq.jobs import Status, decode_record
from inferq.keyring import KeyRing
from inferq.messages import decode_job
from inferq.steps import Step
from inferq.store import Store
from inferq.telemetry import Metrics
from inferq.v2.calls import Answer, Call
from inferq.v2.routes import SyncRoutes
from tests.answers import bearer, problem
from tests.deployment import ALL_TIME_MS, Deployment
from tests.ender import ending
from tests.serving import ready as ingress_ready
from tests.serving import serving
from tests.support import eventually
from tests.syncrig import batching, ready, text_call

KEY = "alice-0123456789"
MODEL = "simulated"
SIMULATED = {"INFERQ_MODEL": "simulated:1,0.1,faults"}
V2_CALL = f"/v2/models/{MODEL}/infer"


@pytest.fixture(params=["ingress", "batcher"])
async def client(request: pytest.FixtureRequest, streams: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    """An ingress with a batcher behind it, or a batcher alone, which ask for a key."""
    options = {**SIMULATED, "INFERQ_API_KEYS": f"alice:{KEY}"}
    async with batching(streams, "", None, **options) as batcher:
        batcher.headers.update(bearer(KEY))
        if request.param == "batcher":
            await ready(batcher, MODEL)
            yield batcher
            return
        async with serving(streams, **options) as ingress:
            ingress.headers.update(bearer(KEY))
            await ready(ingress, MODEL)
            yield ingress


async def sample(client: httpx.AsyncClient, name: str) -> float:
    """Return a metric's value; 0 before there is any."""
    lines = (await client.get("/metrics")).text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")), 0.0)


async def open_jobs(streams: Deployment) -> list[str]:
    """Return the ids of the jobs that have not ended."""
    return [decode_job(job.message).job_id for job in await streams.store.due(ALL_TIME_MS, 300)]


async def status_of(streams: Deployment, job_id: str) -> Status:
    """Return a job's status."""
    record = await streams.store.read(job_id)
    assert record is not None
    return decode_record(record).status


async def test_a_text_is_answered_at_once(client: httpx.AsyncClient) -> None:
    """With the request's own id, who computed it, and how long that took; the same text once more is cached."""
    body = {"request_id": "mine", "input_data": "hello there"}
    first = (await client.post("/infer", json=body)).json()
    assert first.keys() == {"request_id", "output_data", "node_id", "cached", "inference_time_us"}
    assert (first["request_id"], first["cached"]) == ("mine", False)
    assert first["node_id"] == "b-default"
    assert first["inference_time_us"] > 0

    async def again() -> Any:
        found = (await client.post("/infer", json=body)).json()
        assert found["output_data"] == first["output_data"]
        return found["cached"]

    # The answer is given before it is kept.
    await eventually(again, what="the kept answer")
    fresh = await client.post("/infer", json=body, headers={"Cache-Control": "no-cache"})
    assert not fresh.json()["cached"]
    assert await sample(client, 'inferq_calls_total{form="infer",status="200"}') >= 3
    assert await sample(client, "inferq_calls_under_way") == 0


async def test_many_texts_are_answered_together(client: httpx.AsyncClient) -> None:
    """In their order, whatever batches they were in."""
    texts = [f"number {number}" for number in range(100)]
    together = (await client.post(V2_CALL, json=text_call(texts))).json()
    labels, scores = together["outputs"][0]["data"], together["outputs"][1]["data"]
    for place in (0, 50, 99):
        alone = (await client.post(V2_CALL, json=text_call([texts[place]]))).json()["outputs"]
        assert [alone[0]["data"], alone[1]["data"]] == [[labels[place]], [scores[place]]]


@pytest.mark.parametrize(
    ("order", "status", "code"), [("refuse", 400, "invalid_request"), ("raise", 500, "inference_failed")]
)
async def test_a_text_that_fails(client: httpx.AsyncClient, order: str, status: int, code: str) -> None:
    """Its reason is the answer, in each form; a call of several fails with the one."""
    document = problem(await client.post("/infer", json={"input_data": f"[[{order}]] now"}), status, code)
    assert document["detail"]
    response = await client.post(V2_CALL, json=text_call(["good", f"[[{order}]] now"]))
    assert (response.status_code, list(response.json())) == (status, ["error"])


async def test_refusals_have_the_form_of_their_protocol(client: httpx.AsyncClient) -> None:
    """Bodies, media types, keys: problem documents, or one line."""
    problem(await client.post("/infer", json={"input_data": "a", "more": 1}), 400, "invalid_request")
    problem(await client.post("/infer", json={"input_data": "a", "model": "x"}), 404, "model_not_found")
    problem(
        await client.post("/infer", content=b"{}", headers={"content-type": "text/plain"}),
        415,
        "unsupported_media_type",
    )
    for method, path in (("POST", "/infer"), ("POST", V2_CALL), ("GET", f"/v2/models/{MODEL}")):
        response = await client.request(method, path, headers={"Authorization": "Bearer no"})
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert ("error" in response.json()) == path.startswith("/v2")
    large = await client.post(V2_CALL, content=b" " * (9 << 20))
    assert (large.status_code, list(large.json())) == (413, ["error"])
    encoded = await client.post(V2_CALL, content=b"{}", headers={"content-encoding": "gzip"})
    assert (encoded.status_code, list(encoded.json())) == (415, ["error"])
    assert (await client.get("/v2/health/live")).json() == {"live": True}


async def test_paths_and_methods_that_are_not_there(client: httpx.AsyncClient) -> None:
    """A slash too many is another path, and a wrong method is told the right one; below /v2 as its clients read it."""
    for path in ("/nowhere", "/infer/", "/v2nowhere"):
        problem(await client.post(path, json={}), 404, "not_found")
    for path in (f"{V2_CALL}/", "/v2/repository/index", "/v2/"):
        answer = await client.post(path, json={})
        assert (answer.status_code, list(answer.json())) == (404, ["error"])
    refusal = await client.get("/infer")
    problem(refusal, 405, "method_not_allowed")
    assert refusal.headers["allow"] == "POST"
    refusal = await client.get(V2_CALL)
    assert (refusal.status_code, list(refusal.json()), refusal.headers["allow"]) == (405, ["error"], "POST")


async def test_a_call_that_is_not_answered_in_time_is_cancelled(streams: Deployment) -> None:
    """504 says so, with Retry-After; nothing is left of the jobs of the call."""
    async with serving(streams, **SIMULATED) as client:
        await eventually(lambda: ingress_ready(client), what="readiness")
        response = await client.post("/infer", json={"input_data": "never", "timeout_ms": 50})
        assert problem(response, 504, "timed_out")["detail"] == "there was no answer within 0.05 s"
        assert response.headers["retry-after"] == "1"
        body = text_call(["one", "two", "three"], parameters={"timeout": 50_000})
        response = await client.post(V2_CALL, json=body)
        assert (response.status_code, list(response.json())) == (504, ["error"])
        assert await open_jobs(streams) == []
        assert await sample(client, 'inferq_jobs_total{status="cancelled"}') == 4
        assert (await client.get(f"/v2/models/{MODEL}/ready")).status_code == 503


async def test_a_call_that_begins_nothing_cancels_nothing(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused by a full queue it costs Redis no more; of a call that has begun in part, that part is ended."""
    asked: list[int] = []
    apply = Store.apply

    async def counted(self: Store, steps: Sequence[Step]) -> Any:
        asked.append(len(steps))
        return await apply(self, steps)

    monkeypatch.setattr(Store, "apply", counted)
    async with serving(streams, INFERQ_QUEUE_LIMIT="2", **SIMULATED) as client:
        await eventually(lambda: ingress_ready(client), what="readiness")
        assert (await client.post(V2_CALL, json=text_call(["a", "b", "c"]))).status_code == 503
        assert asked == [2]
        # What was cancelled lies in its queue until a batcher sees it.
        problem(await client.post("/infer", json={"input_data": "c"}), 503, "queue_full")
        assert (await client.post(V2_CALL, json=text_call(["a", "b"]))).status_code == 503
        assert asked == [2]


async def test_a_client_that_leaves_has_its_jobs_cancelled(streams: Deployment) -> None:
    """They cost nothing any more."""
    async with serving(streams, **SIMULATED) as client:
        await eventually(lambda: ingress_ready(client), what="readiness")
        asking = asyncio.create_task(client.post(V2_CALL, json=text_call(["one", "two"])))

        async def both() -> list[str]:
            found = await open_jobs(streams)
            return found if len(found) == 2 else []

        jobs = await eventually(both, what="the jobs of the call")
        asking.cancel()
        await asyncio.wait([asking])

        async def cancelled() -> bool:
            return all([await status_of(streams, job) is Status.CANCELLED for job in jobs])

        await eventually(cancelled, what="the end of both jobs")


async def test_a_job_that_somebody_else_ends_is_no_answer(streams: Deployment) -> None:
    """Cancelled by its id, it is a 503; done by whoever did it, it is the answer."""
    async with serving(streams, **SIMULATED) as client:
        await eventually(lambda: ingress_ready(client), what="readiness")
        asking = asyncio.create_task(client.post("/infer", json={"input_data": "one"}))
        (job,) = await eventually(lambda: open_jobs(streams), what="the job of the call")
        await client.delete(f"/v1/jobs/{job}")
        problem(await asking, 503, "unavailable")
        await ending(streams)
        assert (await client.post("/infer", json={"input_data": "two"})).status_code == 200


async def test_a_batcher_takes_keys_that_have_webhooks(streams: Deployment) -> None:
    """It need not know the secret that these are signed with, which it is not told."""
    keys = f"alice:{KEY}:webhook=https://example.com/x"
    async with batching(streams, "", None, **SIMULATED, INFERQ_API_KEYS=keys) as client:
        await eventually(lambda: _calls_are_taken(client), 30, what="readiness")
        assert (await client.post("/infer", json={"input_data": "a"})).status_code == 401
        response = await client.post("/infer", json={"input_data": "a"}, headers=bearer(KEY))
        assert response.status_code == 200


async def test_pages_of_other_origins_call_no_batcher_without_keys(streams: Deployment) -> None:
    """What computes is 403 in each route's form, before the body is read; a page of its own, and programs, may call.

    Under a name that is not loopback's a browser may not even look.
    """
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    embed = {"model": MODEL, "input": "a"}
    async with batching(streams, "", None, **SIMULATED) as client:
        await ready(client, MODEL)
        before = await sample(client, "inferq_direct_total")
        for path, body in (("/infer", {"input_data": "a"}), ("/v1/embeddings", embed)):
            document = problem(await client.post(path, json=body, headers=foreign), 403, "forbidden")
            assert "INFERQ_ORIGINS" in document["detail"]
        response = await client.post(V2_CALL, json=text_call(["a"]), headers=foreign)
        assert (response.status_code, list(response.json())) == (403, ["error"])
        named = {
            "Host": "rebound.example",
            "Sec-Fetch-Site": "same-origin",
            "Origin": "http://rebound.example",
        }
        assert (await client.get("/v2", headers=named)).status_code == 403
        assert await sample(client, "inferq_direct_total") == before
        own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        assert (await client.post("/infer", json={"input_data": "a"}, headers=own)).status_code == 200
        assert (await client.get("/v2", headers=foreign)).status_code == 200


async def test_a_batcher_follows_the_file_of_its_keys(streams: Deployment, tmp_path: Path) -> None:
    """Every form asks for a key; one that is added counts within moments, and one that is gone no longer does."""
    file, other = tmp_path / "keys", "bobby-0123456789"
    file.write_text(f"alice:{KEY}\n")
    file.chmod(0o600)
    page = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    async with batching(streams, "", None, **SIMULATED, INFERQ_API_KEYS=f"@{file}") as client:
        await eventually(lambda: _calls_are_taken(client), 30, what="readiness")

        async def status(key: str | None, **headers: str) -> int:
            named = {**headers, **(bearer(key) if key else {})}
            return (await client.post("/infer", json={"input_data": "a"}, headers=named)).status_code

        # With keys it is them that count, not the page.
        assert [await status(None), await status(KEY), await status(KEY, **page), await status(other)] == [
            401, 200, 200, 401,
        ]  # fmt: skip  # one list
        for path, body in (("/v1/embeddings", {"model": MODEL, "input": "a"}), (V2_CALL, text_call(["a"]))):
            assert (await client.post(path, json=body)).status_code == 401
        file.write_text(f"bobby:{other}\n")

        async def changed() -> bool:
            return [await status(KEY), await status(other)] == [401, 200]

        await eventually(changed, what="the new key")


async def test_a_batcher_says_how_it_is_with_calls_too(streams: Deployment) -> None:
    """`GET /health` counts their jobs as taken in, found, in batches and in hand; of the queue they say nothing."""
    async with batching(streams, "", None, **SIMULATED) as client:
        await ready(client, MODEL)
        assert (await client.post(V2_CALL, json=text_call(["one", "two"]))).status_code == 200

        async def kept() -> bool:
            return bool((await client.post("/infer", json={"input_data": "one"})).json()["cached"])

        await eventually(kept, what="the kept answer")
        health = (await client.get("/health")).json()
        assert health["healthy"]
        # How often it was asked until the answer was kept is not known.
        assert health["total_requests"] >= 3
        assert health["cache_hits"] == 1
        assert health["batch_processor"]["total_batches"] >= 1
        assert (health["jobs_in_hand"], health["queue_lag_ms"], health["queue_depth"]) == (0, None, 0)
        hanging = asyncio.create_task(
            client.post("/infer", json={"input_data": "[[hang]]", "timeout_ms": 20_000})
        )

        async def in_hand() -> bool:
            return bool((await client.get("/health")).json()["jobs_in_hand"] == 1)

        await eventually(in_hand, what="the call in hand")
        hanging.cancel()
        await asyncio.wait([hanging])


async def _calls_are_taken(client: httpx.AsyncClient) -> bool:
    return (await client.get("/v2/health/ready")).status_code == 200


async def test_quotas_count_for_calls(streams: Deployment) -> None:
    """Each text of a call is a job of its key."""
    async with serving(streams, **SIMULATED, INFERQ_API_KEYS=f"alice:{KEY}:rate=2:jobs=2") as client:
        client.headers.update(bearer(KEY))
        await eventually(lambda: ingress_ready(client), what="readiness")
        response = await client.post(V2_CALL, json=text_call(["one", "two", "three"]))
        assert (response.status_code, list(response.json())) == (429, ["error"])
        assert await open_jobs(streams) == []


class Echo:
    """A backend that fails, as it is told, or never answers."""

    def __init__(self, error: Exception) -> None:
        card = ModelCard(name="m", spec="m", task=Task.TEXT)
        self.catalog = Catalog(default="m", models={"m": card})
        self._error = error
        self.calls: list[weakref.ref[Call]] = []

    async def complaint(self) -> str:
        """Say that nothing is wrong."""
        return ""

    def served(self, model: str) -> bool:
        """Say that it is."""
        return True

    async def answers(self, call: Call, caller: Any) -> list[Answer]:
        """Fail."""
        self.calls.append(weakref.ref(call))
        raise self._error


class Several(Echo):
    """A backend of whose jobs for a call one fails."""

    async def answers(self, call: Call, caller: Any) -> list[Answer]:
        """Fail as the first one does."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(super().answers(call, caller))
        except ExceptionGroup as group:
            raise first_of(group) from None
        raise AssertionError("it failed")


class Closed:
    """Lets nobody in."""

    def admit(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse."""
        raise Unauthorized(f"no {method}")


def routes(error: Exception, visitors: Any = None, *, backend: Echo | None = None) -> httpx.AsyncClient:
    """Return a client of the routes before a backend."""
    behind = backend or Echo(error)
    made = SyncRoutes(behind, KeyRing(""), Metrics(), max_input_bytes=1000, visitors=visitors)
    transport = httpx.ASGITransport(Starlette(routes=made.routes()))
    return httpx.AsyncClient(transport=transport, base_url="http://a")


async def test_a_fault_of_ours_says_nothing_of_itself() -> None:
    """500, in the form of the protocol; the log has it."""
    async with routes(ValueError("secret")) as client:
        document = problem(await client.post("/infer", json={"input_data": "a"}), 500, "internal_error")
        assert "secret" not in str(document)
        response = await client.post("/v2/models/m/infer", json=text_call(["a"]))
        assert (response.status_code, response.json()) == (
            500, {"error": "the fault is ours; it is in the log"},
        )  # fmt: skip  # one answer


async def test_calls_that_fail_together_are_all_told() -> None:
    """One error may be that of many: each gets its answer."""
    error = Unavailable("Redis is away")
    async with routes(error) as client:
        replies = await asyncio.gather(
            *(client.post("/infer", json={"input_data": f"text {number}"}) for number in range(8)),
            *(client.post("/v2/models/m/infer", json=text_call([f"text {number}"])) for number in range(8)),
        )
    assert [reply.status_code for reply in replies] == [503] * 16


@pytest.mark.parametrize("kind", [Echo, Several])
async def test_a_call_that_failed_is_let_go_of(kind: type[Echo]) -> None:
    """Nothing of what it sent is held until the collector comes."""
    error = Unavailable("Redis is away")
    backend = kind(error)
    gc.disable()
    try:
        async with routes(error, backend=backend) as client:
            assert (await client.post("/infer", json={"input_data": "a text"})).status_code == 503
        assert [call() for call in backend.calls] == [None]
    finally:
        gc.enable()


async def test_visitors_are_judged_first() -> None:
    """Whoever judges them, where the application around the routes does not."""
    error: HttpError = Unauthorized("x")
    async with routes(error, Closed()) as client:
        for method, path in (("POST", "/infer"), ("GET", "/v2"), ("GET", "/v2/health/live")):
            response = await client.request(method, path)
            assert response.status_code == 401
            assert f"no {method}" in response.text
