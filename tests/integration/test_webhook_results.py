"""Webhooks of every kind of result, from the submit to a receiver that checks them as another company would."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.deployment import Deployment
from tests.encodermodels import make_encoder
from tests.hooking import MASTER, NEW, SECRET, becomes, sending
from tests.receiver import Answer, receiving
from tests.serving import batching
from tests.tensormodels import write_all, write_odd
from tests.tensorserving import body_of, served

HOOKS = {"INFERQ_WEBHOOK_SECRET": MASTER, "INFERQ_WEBHOOK_HOSTS": "127.0.0.1"}
LABELS = ("joy", "anger", "fear")
ROW = np.array([[0.1, -0.0, 1e-30, 3e38]], dtype="f4")
KINDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "tensors": (body_of("mlp", {"x": ROW}), {"outputs"}),
    "several outputs": (body_of("multi-output", {"x": np.eye(3, 4, dtype="f4")}), {"outputs"}),
    "half floats": (body_of("float16", {"x": np.ones((2, 4), dtype="f2")}), {"outputs"}),
    "large integers": (body_of("int64", {"x": np.full((1, 3), 2**60 + 1, dtype="i8")}), {"outputs"}),
    "several labels": ({"model": "multi", "text": "a b"}, {"labels", "scores", "truncated"}),
    "values": ({"model": "stars", "text": "a b"}, {"values", "truncated"}),
    "an embedding": ({"model": "mean", "text": "a b", "text_pair": "c"}, {"embedding", "truncated"}),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of all kinds, each in its folder."""
    folder = write_odd(write_all(tmp_path_factory.mktemp("hooked") / "models"))
    make_encoder(folder / "mean", modules=("Transformer", "Pooling", "Normalize"))
    make_encoder(folder / "multi", labels=LABELS, problem_type="multi_label_classification")
    make_encoder(folder / "stars", labels=("stars",), problem_type="regression")
    return folder


async def submitted(client: httpx.AsyncClient, body: dict[str, Any], url: str) -> str:
    """Submit with a webhook; return the job's id."""
    answer = await client.post("/v1/infer", json=body | {"webhook": url})
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


@pytest.fixture
async def client(streams: Deployment, root: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an ingress that takes webhooks, and has a cache of its own."""
    async with served(streams, root, INFERQ_CACHE="shared", **HOOKS) as it:
        yield it


@pytest.mark.parametrize("kind", KINDS)
async def test_the_receiver_gets_the_record(
    streams: Deployment, root: Path, client: httpx.AsyncClient, kind: str
) -> None:
    """Signed, in one piece, and equal to what is read; so is the one of an equal input that a cache answers."""
    body, keys = KINDS[kind]
    async with (
        receiving(lambda got: Answer(status=503 if got.number == 1 else 200)) as receiver,
        sending(streams),
        batching(streams, body["model"], root, INFERQ_CACHE="shared"),
    ):
        ids = []
        for requests in (2, 4):
            ids.append(await submitted(client, body, receiver.url()))
            await receiver.has(requests)
            await becomes(streams, ids[-1], "delivered")
        records = [(await client.get(f"/v1/jobs/{job_id}")).json() for job_id in ids]
    events = {got.id: got.verified(SECRET) for got in receiver.got}
    assert [got.body for got in receiver.got if got.number == 1] == [
        got.body for got in receiver.got if got.number == 2
    ]
    assert len(events) == 2
    for event, record in zip(events.values(), records, strict=True):
        assert set(record["result"]) == keys
        assert event == {
            "type": "job.done", "job_id": record["job_id"], "seq": record["seq"], "job": record | {"webhook": NEW},
        }  # fmt: skip  # as the contract says
    assert [record["cached"] for record in records] == [False, True]
    assert records[0]["result"] == records[1]["result"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            body_of("divide", {"a": np.ones((1, 1), dtype="f4"), "b": np.zeros((1, 1), dtype="f4")}),
            "inference_failed",
        ),
        ({"model": "multi", "text": "a b", "deadline_ms": 1}, None),
    ],
)
async def test_an_end_without_a_result_is_told_too(
    streams: Deployment, root: Path, client: httpx.AsyncClient, body: dict[str, Any], code: str | None
) -> None:
    """Outputs that no JSON holds, and a job that came too late."""
    async with receiving() as receiver, sending(streams):
        job_id = await submitted(client, body, receiver.url())
        async with batching(streams, body["model"], root):
            await receiver.has(1, 30.0)
            await becomes(streams, job_id, "delivered")
            record = (await client.get(f"/v1/jobs/{job_id}")).json()
    event = receiver.got[0].verified(SECRET)
    assert event["type"] == f"job.{record['status']}"
    assert event["job"] == record | {"webhook": NEW}
    assert (record["status"], (record["error"] or {}).get("code")) == ("failed" if code else "expired", code)
    assert record["result"] is None
