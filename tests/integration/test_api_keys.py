"""API keys at the ingress: who gets in, and whose job a job is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from inferq.messages import decode_job
from inferq.steps import Origin, start
from tests.answers import GOOD, accepted, bearer, problem
from tests.deployment import Deployment, Inbox, finished
from tests.serving import ready, serving
from tests.support import eventually

ALICE, BOB, ROOT = "alice-0123456789", "bob-0123456789ab", "root-0123456789a"
KEYS: Final = f"alice:{ALICE},bob:{BOB},root:{ROOT}:admin"
UNKNOWN: Final = "0" * 32


@pytest.fixture
async def keyed(streams: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an ingress that asks for keys."""
    async with serving(streams, INFERQ_API_KEYS=KEYS) as it:
        await eventually(lambda: ready(it), what="readiness")
        yield it


def unauthorized(response: httpx.Response) -> None:
    """Check that an answer is 401, says how to give a key, and quotes none."""
    problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == 'Bearer realm="inferq"'
    for key in (ALICE, BOB, ROOT, "wrong"):
        assert key not in response.text


CALLS: Final = [
    ("POST", "/v1/infer", GOOD),
    ("POST", "/v1/infer", {"text": ""}),
    ("POST", "/v1/infer/batch", {"inputs": [GOOD]}),
    ("GET", f"/v1/jobs/{UNKNOWN}", None),
    ("DELETE", f"/v1/jobs/{UNKNOWN}", None),
    ("GET", "/v1/jobs/x", None),
    ("GET", "/v1/stats", None),
]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer wrong-0123456789")],
        [("Authorization", f"Bearer {ALICE}x")],
        [("Authorization", "Bearer")],
        [("Authorization", "")],
        [("Authorization", ALICE)],
        [("Authorization", f"Basic {ALICE}")],
        [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {ALICE}")],
        [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {BOB}")],
        [("Authorization", f"Bearer {ALICE}"), ("Idempotency-Key", "k"), ("Authorization", "")],
        [("Authorization", f"Bearer {ALICE}, Bearer {ALICE}")],
        [("X-API-Key", ALICE)],
    ],
    ids=[
        "none", "wrong", "longer", "empty", "blank", "bare", "basic", "twice", "two", "second-blank", "joined",
        "another-header",
    ],
)  # fmt: skip  # one id for each
async def test_without_a_known_key_nothing_is_answered(
    keyed: httpx.AsyncClient, streams: Deployment, headers: list[tuple[str, str]]
) -> None:
    """401 on every path that reads or makes a job, whatever is wrong with the rest of the call."""
    for method, path, body in CALLS:
        unauthorized(await keyed.request(method, path, json=body, headers=headers))
    assert await streams.open_jobs() == []


@pytest.mark.parametrize("key", [ALICE, BOB, ROOT])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_with_a_key_everything_is_as_usual(keyed: httpx.AsyncClient, key: str, scheme: str) -> None:
    """A job is accepted, alone and in a batch, can be polled and cancelled, and statistics are shown."""
    headers = {"Authorization": f"{scheme} {key}"}
    answer = await accepted(keyed, **headers)
    record = (await keyed.get(answer["status_url"], headers=headers)).json()
    assert record["status"] == "queued"
    response = await keyed.post("/v1/infer/batch", json={"inputs": [GOOD]}, headers=headers)
    assert response.status_code == 202
    assert (await keyed.delete(answer["status_url"], headers=headers)).status_code == 200
    assert (await keyed.get("/v1/stats", headers=headers)).status_code == 200


async def test_a_body_is_not_waited_for_without_a_key(keyed: httpx.AsyncClient) -> None:
    """However large it is, its sender is told what is missing; the connection goes on being of use."""
    for size in (60_000, 500_000):
        unauthorized(await keyed.post("/v1/infer/batch", content=b" " * size))
        await accepted(keyed, **bearer(ALICE))


async def test_probes_and_metrics_stay_open(keyed: httpx.AsyncClient) -> None:
    """Whoever watches the process reads no job."""
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await keyed.get(path)).status_code == 200
    unauthorized(await keyed.post("/v1/infer", json=GOOD))
    assert 'inferq_refused_total{code="unauthorized"} 1.0' in (await keyed.get("/metrics")).text


def told(response: httpx.Response) -> tuple[Any, ...]:
    """Return all of an answer but when it was given."""
    return (
        response.status_code,
        sorted((name, value) for name, value in response.headers.items() if name != "date"),
        response.content,
    )


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("ended", [False, True])
async def test_another_keys_job_is_as_unknown_as_none(
    keyed: httpx.AsyncClient, streams: Deployment, method: str, ended: bool
) -> None:
    """To the byte, in whatever state it is; and nothing is done to it."""
    answer = await accepted(keyed, **bearer(ALICE))
    if ended:
        assert (await keyed.delete(answer["status_url"], headers=bearer(ALICE))).status_code == 200
    before = await streams.record(answer["job_id"])
    hers = await keyed.request(method, answer["status_url"], headers=bearer(BOB))
    none = await keyed.request(method, f"/v1/jobs/{UNKNOWN}", headers=bearer(BOB))
    problem(hers, 404, "not_found")
    assert told(hers) == told(none)
    assert await streams.record(answer["job_id"]) == before


async def test_an_admin_sees_and_cancels_all(keyed: httpx.AsyncClient, streams: Deployment) -> None:
    """Jobs of every key, and those that came in before there were keys, which are nobody else's."""
    origin = streams.job()
    await streams.store.create(origin)
    nobodys = f"/v1/jobs/{origin.job.job_id}"
    hers = (await accepted(keyed, **bearer(ALICE)))["status_url"]
    for path in (hers, nobodys):
        assert (await keyed.get(path, headers=bearer(ROOT))).status_code == 200
    problem(await keyed.get(nobodys, headers=bearer(ALICE)), 404, "not_found")
    for path in (hers, nobodys):
        assert (await keyed.delete(path, headers=bearer(ROOT))).json()["status"] == "cancelled"


async def test_the_owner_is_in_the_record_and_never_shown(either: Deployment) -> None:
    """Nor does a batcher's result, or a record that is made anew from its message, lose it."""
    async with serving(either, INFERQ_API_KEYS=KEYS) as client:
        await eventually(lambda: ready(client), what="readiness")
        job_id = (await accepted(client, **bearer(ALICE)))["job_id"]
        inbox = Inbox()
        await either.consumer(await either.broker(limit_jobs=10_000), inbox)
        await inbox.receives(job_id)
        job = decode_job(inbox.got[0].body)
        assert job.owner == "alice"
        await either.redis.delete(either.names.job(job_id))
        problem(await client.get(f"/v1/jobs/{job_id}", headers=bearer(ALICE)), 404, "not_found")
        origin = Origin(job=job, queue=inbox.got[0].queue, message=inbox.got[0].body)
        for step in (start(origin), finished(origin)):
            assert (await either.store.move(step)).applied
            response = await client.get(f"/v1/jobs/{job_id}", headers=bearer(ALICE))
            assert response.status_code == 200
            assert "alice" not in response.text
            assert "owner" not in response.text
            problem(await client.get(f"/v1/jobs/{job_id}", headers=bearer(BOB)), 404, "not_found")


async def test_keys_in_a_file_are_followed(streams: Deployment, tmp_path: Path) -> None:
    """One that is added gets in without a restart, one that is taken away no longer does; jobs stay whose they are."""
    file = tmp_path / "keys"
    file.write_text(f"# who may call\nalice:{ALICE}\n")
    async with serving(streams, INFERQ_API_KEYS=f"@{file}") as client:
        await eventually(lambda: ready(client), what="readiness")
        path = (await accepted(client, **bearer(ALICE)))["status_url"]
        unauthorized(await client.get(path, headers=bearer(BOB)))
        draft = tmp_path / "draft"
        async with client.stream("GET", f"{path}/events", headers=bearer(ALICE)) as stream:
            draft.write_text(f"bob:{BOB}\nalice:{ROOT}\n")
            draft.replace(file)
            async with asyncio.timeout(10.0):
                assert "snapshot" in (await stream.aread()).decode(), "it ends as a whole answer"

        async def known() -> bool:
            return (await client.get(path, headers=bearer(BOB))).status_code == 404

        await eventually(known, what="the new key")
        unauthorized(await client.get(path, headers=bearer(ALICE)))
        assert (await client.get(path, headers=bearer(ROOT))).status_code == 200, "a name's new key"
        draft.write_text("nonsense\n")
        draft.replace(file)
        draft.write_text(f"bob:{BOB}\n")
        draft.replace(file)

        async def gone() -> bool:
            return (await client.get(path, headers=bearer(ROOT))).status_code == 401

        await eventually(gone, what="the end of the old key")


async def test_without_keys_everybody_sees_everything(client: httpx.AsyncClient) -> None:
    """Whatever key a client gives, right or wrong; two of them are refused nowhere."""
    answer = await accepted(client, **bearer("whatever-0123456"))
    assert (await client.get(answer["status_url"])).status_code == 200
    assert (await client.get(answer["status_url"], headers=bearer("x"))).status_code == 200
