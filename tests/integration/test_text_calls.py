"""Synchronous calls of text models of all kinds, through the pipeline and past the queue: equal to ONNX Runtime."""

import base64
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferResult

from tests.answers import problem
from tests.deployment import Deployment
from tests.encodermodels import WIDTH, Array, direct, ids_of, make_encoder
from tests.syncrig import answering, text_call, with_triton

LABELS: Final = ("joy", "anger", "fear")
TEXTS: Final = ("a b", "c d e f g h i j k l m n o p q r", "x y z")
Asked = dict[str, httpx.AsyncClient]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each kind, in its folder; the first two take one text alone."""
    folder = tmp_path_factory.mktemp("calls") / "models"
    make_encoder(folder / "embed", modules=("Transformer", "Pooling", "Normalize"), pairs=False)
    make_encoder(folder / "several", labels=LABELS, problem_type="multi_label_classification", pairs=False)
    make_encoder(folder / "stars", labels=("stars",), problem_type="regression")
    make_encoder(folder / "match", labels=("no", "yes"))
    return folder


@pytest.fixture
async def asked(request: pytest.FixtureRequest, streams: Deployment, root: Path) -> AsyncIterator[Asked]:
    """Who is asked for each model: an ingress, or the batcher of each."""
    service, *models = request.param
    async with answering(service, streams, root, *models) as it:
        yield it


def serving(*models: str) -> pytest.MarkDecorator:
    """Run a test with these models, before an ingress and before batchers."""
    services = ["ingress", "batcher"]
    return pytest.mark.parametrize("asked", [(one, *models) for one in services], ids=services, indirect=True)


def vectors(root: Path, *texts: str) -> Array:
    """Return what ONNX Runtime and numpy make of texts: normalised means."""
    means = np.array([direct(root / "embed", *ids_of(text)).mean(axis=0) for text in texts])
    found: Array = means / np.linalg.norm(means, axis=1, keepdims=True)
    return found


def logits(root: Path, model: str, *texts: str, pair: str = "") -> Array:
    """Return what ONNX Runtime makes of texts, or of each with a second one."""
    return np.array([direct(root / model, *ids_of(text, pair)) for text in texts], dtype=np.float64)


def softmax(values: Array) -> Array:
    """Return what a softmax makes of each row."""
    found: Array = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    return found


async def outputs(client: httpx.AsyncClient, model: str, body: dict[str, Any]) -> dict[str, Any]:
    """Call a model with JSON and return its outputs by name."""
    response = await client.post(f"/v2/models/{model}/infer", json=body)
    assert response.status_code == 200, response.text
    return {output["name"]: output for output in response.json()["outputs"]}


def bytes_of(name: str, *values: str) -> InferInput:
    """Return texts as the client of Triton has them, in bytes."""
    made = InferInput(name, [len(values)], "BYTES")
    made.set_data_from_numpy(np.array([value.encode() for value in values], dtype=object))
    return made


def infer(model: str, inputs: list[InferInput], triton: InferenceServerClient) -> InferResult:
    """Call a model."""
    return triton.infer(model, inputs)


@serving("embed")
async def test_embeddings_in_every_form_are_the_models(asked: Asked, root: Path) -> None:
    """OpenAI's, as numbers and as bytes, the protocol's, and one text's: all are what ONNX Runtime and numpy give."""
    client, wanted = asked["embed"], vectors(root, *TEXTS)
    body = {"model": "embed", "input": list(TEXTS)}
    answer = (await client.post("/v1/embeddings", json=body)).json()
    assert (answer["object"], answer["model"]) == ("list", "embed")
    assert [(one["object"], one["index"]) for one in answer["data"]] == [("embedding", at) for at in range(3)]
    found = [one["embedding"] for one in answer["data"]]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert answer["usage"] == {"prompt_tokens": 21, "total_tokens": 21}
    packed = (await client.post("/v1/embeddings", json={**body, "encoding_format": "base64"})).json()["data"]
    raw = [np.frombuffer(base64.b64decode(one["embedding"]), dtype="<f4") for one in packed]
    np.testing.assert_allclose(raw, wanted, rtol=1e-5, atol=1e-6)
    one = (await client.post("/infer", json={"input_data": TEXTS[0], "model": "embed"})).json()
    np.testing.assert_allclose(one["output_data"], wanted[0], rtol=1e-5, atol=1e-6)
    result = await with_triton(client, partial(infer, "embed", [bytes_of("text", *TEXTS)]))
    tensor = result.as_numpy("embedding")
    assert (tensor.shape, tensor.dtype) == ((3, WIDTH), np.float32)
    np.testing.assert_allclose(tensor, wanted, rtol=1e-5, atol=1e-6)


@serving("embed", "match")
async def test_embeddings_that_are_refused(asked: Asked) -> None:
    """A model of another kind, one that there is not, and texts that are none; the same on either service."""

    async def refused(client: httpx.AsyncClient, status: int, code: str, **body: Any) -> str:
        document = problem(await client.post("/v1/embeddings", json=body), status, code)
        # Of what OpenAI's clients are answered they show this alone.
        assert document["error"]["message"] == f"{document['title']}: {document['detail']}"
        return str(document["detail"])

    detail = await refused(asked["match"], 400, "invalid_request", model="match", input="a")
    assert detail == "model must be the name of an embedding model, and 'match' is none"
    await refused(asked["embed"], 404, "model_not_found", model="nowhere", input="a")
    detail = await refused(asked["embed"], 400, "invalid_request", model="embed", input=["a", " "])
    assert detail == "input must not be white space alone"
    detail = await refused(asked["embed"], 400, "invalid_request", model="embed", input=["a"] * 257)
    assert "a list of 1 to 256" in detail


@serving("embed", "several", "stars", "match")
async def test_what_is_said_of_each_model_is_what_it_answers(asked: Asked) -> None:
    """Names, types and axes of metadata and answers; a second text is listed where the tokenizer takes pairs."""
    text, pair = ({"name": name, "datatype": "BYTES", "shape": [-1]} for name in ("text", "text_pair"))
    wanted = {
        "embed": ([text], [("embedding", "FP32", [-1, -1])]),
        "several": ([text], [("labels", "BYTES", [-1, 3]), ("scores", "FP32", [-1, 3])]),
        "stars": ([text, pair], [("values", "FP32", [-1, 1])]),
        "match": (
            [text, pair],
            [("label", "BYTES", [-1]), ("score", "FP32", [-1]), ("scores", "FP32", [-1, 2])],
        ),
    }
    for model, (takes, gives) in wanted.items():
        said = (await asked[model].get(f"/v2/models/{model}")).json()
        assert said["inputs"] == takes
        assert [(one["name"], one["datatype"], one["shape"]) for one in said["outputs"]] == gives
        answered = await outputs(asked[model], model, text_call(["a", "b c"]))
        for name, datatype, shape in gives:
            found = answered.pop(name)
            assert found["datatype"] == datatype
            assert len(found["shape"]) == len(shape)
            assert all(axis in (-1, length) for axis, length in zip(shape, found["shape"], strict=True))
        assert not answered


@serving("several")
async def test_labels_that_hold_together(asked: Asked, root: Path) -> None:
    """Best first, the rest of each row empty; scores in the model's order, whose names are given."""
    client = asked["several"]
    found = await outputs(client, "several", text_call(list(TEXTS)))
    wanted = 1 / (1 + np.exp(-logits(root, "several", *TEXTS)))
    scores = np.array(found["scores"]["data"]).reshape(found["scores"]["shape"])
    np.testing.assert_allclose(scores, wanted, atol=1e-5)
    assert json.loads(found["scores"]["parameters"]["labels"]) == list(LABELS)
    rows = np.array(found["labels"]["data"]).reshape(found["labels"]["shape"]).tolist()
    for row, scored in zip(rows, wanted, strict=True):
        holding = [LABELS[at] for at in np.argsort(-scored) if scored[at] >= 0.5]
        assert row == holding + [""] * (len(LABELS) - len(holding))
    result = await with_triton(client, partial(infer, "several", [bytes_of("text", *TEXTS)]))
    assert result.as_numpy("labels").tolist() == [[label.encode() for label in row] for row in rows]
    plain = (await client.post("/infer", json={"input_data": TEXTS[0], "model": "several"})).json()
    assert set(plain["output_data"]) == {"labels", "scores", "truncated"}
    fault = await client.post("/v2/models/several/infer", json=text_call(["a"], outputs=[{"name": "label"}]))
    assert fault.json() == {
        "error": "The request is not valid: outputs[0].name must be one of labels, scores"
    }


@serving("stars")
async def test_values(asked: Asked, root: Path) -> None:
    """A column for each label, of any numbers."""
    found = await outputs(asked["stars"], "stars", text_call(list(TEXTS)))
    assert json.loads(found["values"]["parameters"]["labels"]) == ["stars"]
    np.testing.assert_allclose(found["values"]["data"], logits(root, "stars", *TEXTS)[:, 0], rtol=1e-5)
    plain = (await asked["stars"].post("/infer", json={"input_data": TEXTS[0], "model": "stars"})).json()
    assert plain["output_data"]["values"]["stars"] == pytest.approx(found["values"]["data"][0])


@serving("match")
async def test_pairs_of_texts(asked: Asked, root: Path) -> None:
    """One text with another, in each form; the same text without one, or with another, is another input."""
    client = asked["match"]
    wanted = softmax(logits(root, "match", *TEXTS, pair="d e"))
    call = text_call(list(TEXTS))
    call["inputs"].insert(0, {"name": "text_pair", "datatype": "BYTES", "shape": [3], "data": ["d e"] * 3})
    found = await outputs(client, "match", call)
    np.testing.assert_allclose(found["scores"]["data"], wanted.ravel(), atol=1e-5)
    given = [bytes_of("text", *TEXTS), bytes_of("text_pair", *["d e"] * 3)]
    result = await with_triton(client, partial(infer, "match", given))
    np.testing.assert_allclose(result.as_numpy("scores"), wanted, atol=1e-5)
    one = {"request_id": "1", "input_data": TEXTS[0], "model": "match"}
    for pair in ("d e", "f"):
        answer = (await client.post("/infer", json={**one, "text_pair": pair})).json()
        scores = [answer["output_data"]["scores"][label] for label in ("no", "yes")]
        np.testing.assert_allclose(scores, softmax(logits(root, "match", TEXTS[0], pair=pair))[0], atol=1e-5)
    alone = (await client.post("/infer", json=one)).json()
    scores = [alone["output_data"]["scores"][label] for label in ("no", "yes")]
    np.testing.assert_allclose(scores, softmax(logits(root, "match", TEXTS[0]))[0], atol=1e-5)
    # What is asked without any other field stays what it was.
    assert alone.keys() == {"request_id", "output_data", "node_id", "cached", "inference_time_us"}


@serving("several", "match")
async def test_second_texts_that_are_refused(asked: Asked) -> None:
    """Of a model that takes one text, or of another shape, with the field's name."""
    detail = problem(
        await asked["several"].post("/infer", json={"input_data": "a", "text_pair": "b", "model": "several"}),
        400,
        "invalid_request",
    )["detail"]
    assert detail == "text_pair is not for the model 'several', which takes one text"
    for model, shape, fault in (
        ("several", [1], "inputs[1].name 'text_pair' is not for the model 'several', which takes one text"),
        ("match", [1, 1], "inputs[1].shape must be [1], as that of 'text' is"),
    ):
        call = text_call(["a"])
        call["inputs"].append({"name": "text_pair", "datatype": "BYTES", "shape": shape, "data": ["b"]})
        response = await asked[model].post(f"/v2/models/{model}/infer", json=call)
        assert (response.status_code, response.json()) == (
            400,
            {"error": f"The request is not valid: {fault}"},
        )
