"""Text models of all kinds through the whole pipeline: what comes back is what ONNX Runtime and plain numpy give."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.deployment import Deployment
from tests.encodermodels import MAX_LENGTH, WIDTH, Array, direct, ids_of, make_encoder
from tests.serving import batching, ready, serving
from tests.support import eventually
from tests.tensorserving import ended

LABELS = ("joy", "anger", "fear")
SHORT, LONG = "a b", "c d e f g h i j k l m n o p q r"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, each in its folder."""
    folder = tmp_path_factory.mktemp("texts") / "models"
    both = ("Transformer", "Pooling", "Normalize")
    make_encoder(folder / "mean", modules=both)
    make_encoder(folder / "plain-mean", modules=both[:2], first_too=True)
    make_encoder(folder / "max", modules=both[:2], pooling={"pooling_mode_max_tokens": True})
    make_encoder(folder / "cls", choice={"task": "embedding", "pooling": "cls"})
    make_encoder(folder / "single", labels=LABELS)
    make_encoder(folder / "multi", labels=LABELS, problem_type="multi_label_classification", pairs=False)
    make_encoder(folder / "stars", labels=("stars",), problem_type="regression")
    make_encoder(folder / "match", labels=("match",))
    return folder


@asynccontextmanager
async def queued(
    deployment: Deployment, root: Path, *bodies: dict[str, Any], **options: str
) -> AsyncIterator[tuple[httpx.AsyncClient, list[str]]]:
    """Run an ingress and submit to it, before anybody serves the model, so that the jobs meet in batches."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(deployment, INFERQ_MODELS=str(root), **options))
        await eventually(lambda: ready(client), what="readiness")
        answer = await client.post("/v1/infer/batch", json={"inputs": list(bodies)})
        assert (answer.status_code, answer.json()["refused"]) == (202, 0), answer.text
        yield client, [job["job_id"] for job in answer.json()["jobs"]]


async def records(deployment: Deployment, root: Path, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """Run jobs of one model, all of them done, and return their records."""
    async with (
        queued(deployment, root, *bodies) as (client, ids),
        batching(deployment, bodies[0]["model"], root),
    ):
        found = [await ended(client, job_id) for job_id in ids]
    assert [record["status"] for record in found] == ["done"] * len(found), found
    return found


def sigmoid(values: Array) -> Array:
    """Return what a sigmoid makes of values."""
    found: Array = 1 / (1 + np.exp(-values.astype(np.float64)))
    return found


@pytest.mark.parametrize("model", ["mean", "plain-mean", "max", "cls"])
async def test_embeddings_are_pooled_without_the_padding(streams: Deployment, root: Path, model: str) -> None:
    """A short text in one batch with a long one, on its left and right, has the vector that it has alone."""
    texts = [SHORT, LONG, "z", SHORT + " c"]
    found = await records(streams, root, *({"model": model, "text": text} for text in texts))
    assert max(record["batch"]["padded_tokens"] - record["batch"]["tokens"] for record in found) > 0
    for text, record in zip(texts, found, strict=True):
        tokens = direct(root / model, *ids_of(text))
        wanted = {"max": tokens.max(axis=0), "cls": tokens[0]}.get(model, tokens.mean(axis=0))
        if model == "mean":
            wanted = wanted / np.linalg.norm(wanted)
        assert set(record["result"]) == {"embedding", "truncated"}
        assert record["result"]["truncated"] is False
        assert len(record["result"]["embedding"]) == WIDTH
        np.testing.assert_allclose(record["result"]["embedding"], wanted, rtol=1e-5, atol=1e-6)


async def test_one_label_of_several(streams: Deployment, root: Path) -> None:
    """A softmax over them, as ever."""
    (record,) = await records(streams, root, {"model": "single", "text": SHORT})
    logits = direct(root / "single", *ids_of(SHORT)).astype(np.float64)
    wanted = np.exp(logits) / np.exp(logits).sum()
    result = record["result"]
    assert list(result) == ["label", "score", "scores", "truncated"]
    np.testing.assert_allclose([result["scores"][label] for label in LABELS], wanted, atol=1e-5)
    assert result["label"] == LABELS[int(wanted.argmax())]


async def test_several_labels_may_hold(streams: Deployment, root: Path) -> None:
    """Each by its own sigmoid: those of a half or more are listed, best first."""
    texts = [SHORT, LONG, "x y z"]
    found = await records(streams, root, *({"model": "multi", "text": text} for text in texts))
    for text, record in zip(texts, found, strict=True):
        wanted = sigmoid(direct(root / "multi", *ids_of(text)))
        result = record["result"]
        assert list(result) == ["labels", "scores", "truncated"]
        np.testing.assert_allclose([result["scores"][label] for label in LABELS], wanted, atol=1e-5)
        order = [LABELS[index] for index in np.argsort(-wanted)]
        assert result["labels"] == [label for label in order if result["scores"][label] >= 0.5]
    assert {len(record["result"]["labels"]) for record in found} - {1}


async def test_a_regression_answers_with_its_value(streams: Deployment, root: Path) -> None:
    """No probability: it may be any number."""
    (record,) = await records(streams, root, {"model": "stars", "text": SHORT})
    assert record["result"]["truncated"] is False
    np.testing.assert_allclose(
        record["result"]["values"]["stars"], direct(root / "stars", *ids_of(SHORT))[0], rtol=1e-5
    )


async def test_pairs_are_one_input_with_two_types(streams: Deployment, root: Path) -> None:
    """In one batch with single texts; the second text's tokens have type 1; of a pair too long the longer is cut."""
    given = [("a b", "c d e"), ("a b", ""), ("a b c d e", ""), (LONG, "a b c d e f g h")]
    bodies = [
        {"model": "match", "text": text} | ({"text_pair": pair} if pair else {}) for text, pair in given
    ]
    found = await records(streams, root, *bodies)
    assert [record["result"]["truncated"] for record in found] == [False, False, False, True]
    room = MAX_LENGTH - 3
    cut = (" ".join(LONG.split()[: room - 8]), given[3][1])
    for pair, record in zip([*given[:3], cut], found, strict=True):
        wanted = sigmoid(direct(root / "match", *ids_of(*pair)))
        np.testing.assert_allclose(record["result"]["scores"]["match"], wanted[0], atol=1e-5)
    scores = [record["result"]["scores"]["match"] for record in found[:3]]
    assert len(set(scores)) == 3


async def test_a_pair_is_another_input_than_its_text(either: Deployment, root: Path) -> None:
    """In the caches too, and on either broker; the same pair again is answered from there."""
    pair = {"model": "match", "text": "a b", "text_pair": "c d e"}
    async with (
        queued(either, root, {"model": "match", "text": "a b"}, pair) as (client, ids),
        batching(either, "match", root),
    ):
        alone, both = [await ended(client, job_id) for job_id in ids]
        again = await client.post("/v1/infer", json=pair)
        repeated = await ended(client, again.json()["job_id"])
        swapped = await client.post("/v1/infer", json={**pair, "text": "c d e", "text_pair": "a b"})
        other = await ended(client, swapped.json()["job_id"])
    assert repeated["cached"]
    assert not other["cached"]
    assert repeated["result"] == both["result"]
    assert len({str(one["result"]) for one in (alone, both, other)}) == 3


async def test_what_takes_no_pair_says_so(streams: Deployment, root: Path) -> None:
    """With the field's name, before the queue; a text that is white space alone is none in either place."""
    async with queued(streams, root, {"model": "multi", "text": "a"}) as (client, _):
        for body, detail in (
            ({"model": "multi", "text": "a", "text_pair": "b"}, "is not for the model 'multi'"),
            ({"model": "match", "text": "a", "text_pair": " "}, "must not be white space alone"),
            ({"model": "match", "text": "a", "text_pair": "x" * 2001}, "a string of 1 to 2000 characters"),
            ({"model": "match", "text": "a", "text_pair": ""}, "a string of 1 to 2000 characters"),
            ({"model": "match", "input_data": [1], "text_pair": "b"}, "must not stand beside input_data"),
        ):
            answer = await client.post("/v1/infer", json=body)
            assert answer.status_code == 400
            (fault,) = answer.json()["errors"]
            assert fault["pointer"] == "/text_pair"
            assert detail in fault["detail"]


async def test_where_the_ingress_cannot_know_the_batcher_says_it(
    streams: Deployment, root: Path, tmp_path: Path
) -> None:
    """The folder of the default model is elsewhere for the ingress: the job fails, with the field's name."""
    model = {"INFERQ_MODELS": "", "INFERQ_THREADS": "1"}
    async with (
        serving(streams, INFERQ_MODEL=str(tmp_path / "gone" / "multi"), **model) as client,
        batching(streams, "", root, INFERQ_MODEL=str(root / "multi"), INFERQ_MODELS=""),
    ):
        await eventually(lambda: ready(client), what="readiness")
        answer = await client.post("/v1/infer", json={"text": "a", "text_pair": "b"})
        record = await ended(client, answer.json()["job_id"])
    assert record["error"]["code"] == "invalid_input"
    assert "text_pair" in record["error"]["detail"]
