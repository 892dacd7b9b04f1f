"""Tensor models through the whole pipeline: what comes back is what ONNX Runtime gives for the same input."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import inferq
from tests.deployment import Deployment
from tests.notifying import notifying
from tests.serving import batching, ready, serving
from tests.support import eventually
from tests.tensormodels import MODELS, Array, write_all, write_odd
from tests.tensorserving import body_of, check_outputs, ended, outcome, served, values


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, each in its folder."""
    return write_odd(write_all(tmp_path_factory.mktemp("tensors") / "models"))


@pytest.mark.parametrize("model", MODELS)
async def test_each_model_answers_as_the_runtime_does(streams: Deployment, root: Path, model: str) -> None:
    """Twelve jobs of random inputs, some of several rows, come back each with its own outputs, in batches or alone."""
    session = onnxruntime.InferenceSession(root / model / "model.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    given = [MODELS[model][1](rng) for _ in range(12)]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(streams, INFERQ_MODELS=str(root)))
        await eventually(lambda: ready(client), what="readiness")
        # Queued before anybody serves the model, so that they meet in batches.
        bodies = [body_of(model, feeds) for feeds in given]
        answers = [await client.post("/v1/infer", json=body) for body in bodies]
        assert [answer.status_code for answer in answers] == [202] * 12, answers[0].text
        await stack.enter_async_context(batching(streams, model, root))
        records = [await ended(client, answer.json()["job_id"]) for answer in answers]
    for record, feeds in zip(records, given, strict=True):
        check_outputs(record, session, feeds)
        assert record["model"] == model
    sizes = {record["batch"]["size"] for record in records}
    assert (max(sizes) > 1) == (model != "fixed"), sizes


async def test_rows_and_shapes_of_all_kinds_meet(either: Deployment, root: Path) -> None:
    """Jobs of one row and of several, of different lengths, on either broker: each gets its own outputs."""
    session = onnxruntime.InferenceSession(
        root / "lengths" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(5)
    given = [
        {"x": rng.normal(0, 1, (rows, length, 2)).astype("f4")}
        for rows in (1, 2, 5)
        for length in (1, 3, 3, 7)
    ]
    async with served(either, root) as client:
        body = {"inputs": [body_of("lengths", feeds) for feeds in given]}
        answer = await client.post("/v1/infer/batch", json=body)
        assert (answer.status_code, answer.json()["accepted"]) == (202, 12), answer.text
        async with batching(either, "lengths", root):
            records = [await ended(client, job["job_id"]) for job in answer.json()["jobs"]]
    for record, feeds in zip(records, given, strict=True):
        check_outputs(record, session, feeds)
        assert record["batch"]["tokens"] == record["batch"]["padded_tokens"] >= len(feeds["x"])
    batches = {record["batch"]["id"]: set[int]() for record in records}
    for record, feeds in zip(records, given, strict=True):
        batches[record["batch"]["id"]].add(feeds["x"].shape[1])
    assert all(len(lengths) == 1 for lengths in batches.values()), "a batch holds one length alone"
    assert len(batches) < 12


async def test_a_list_of_numbers_is_one_row(streams: Deployment, root: Path) -> None:
    """For a model that takes one vector of floats."""
    session = onnxruntime.InferenceSession(root / "mlp" / "model.onnx", providers=["CPUExecutionProvider"])
    async with served(streams, root, "mlp") as client:
        answer = await client.post("/v1/infer", json={"model": "mlp", "input_data": [1, 2.5, -3, 0]})
        record = await ended(client, answer.json()["job_id"])
        check_outputs(record, session, {"x": np.array([[1, 2.5, -3, 0]], dtype="f4")})
        refused = await client.post("/v1/infer", json={"model": "lengths", "input_data": [1]})
        assert refused.json()["errors"][0]["pointer"] == "/input_data"


async def test_tensors_as_bytes(streams: Deployment, root: Path) -> None:
    """Behind the JSON, as the protocol's binary extension has it; a batch takes JSON alone."""
    x = np.array([[1, 2.5, -3, 0]], dtype="f4")
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
    head = json.dumps({"model": "mlp", "inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    session = onnxruntime.InferenceSession(root / "mlp" / "model.onnx", providers=["CPUExecutionProvider"])
    async with served(streams, root, "mlp") as client:
        answer = await client.post("/v1/infer", content=head + x.tobytes(), headers=headers)
        assert answer.status_code == 202, answer.text
        check_outputs(await ended(client, answer.json()["job_id"]), session, {"x": x})
        refused = await client.post("/v1/infer", content=head + x.tobytes()[1:], headers=headers)
        assert refused.json()["errors"][0]["pointer"] == "/inputs/0/parameters"
        json_only = {**headers, "Content-Type": "application/json"}
        assert (await client.post("/v1/infer/batch", content=b"{}", headers=json_only)).status_code == 415


async def test_what_the_graph_does_not_take_is_refused_at_the_door(streams: Deployment, root: Path) -> None:
    """Before the queue, each with the place; a model that no folder names is not found."""
    good = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    async with served(streams, root, INFERQ_MAX_INPUT_BYTES="1024") as client:
        for tensor, pointer in (
            ({**good, "shape": [1, 2**40]}, "/inputs/0/shape"),
            ({**good, "shape": [1, 5], "data": [1] * 5}, "/inputs/0/shape"),
            ({**good, "shape": [65, 4], "data": [0] * 260}, "/inputs/0/shape"),
            ({**good, "data": [1, 2, 3, 1e39]}, "/inputs/0/data"),
            ({**good, "datatype": "FP16"}, "/inputs/0/datatype"),
            ({**good, "datatype": "BYTES"}, "/inputs/0/datatype"),
        ):
            answer = await client.post("/v1/infer", json={"model": "mlp", "inputs": [tensor]})
            assert answer.status_code == 400, answer.text
            assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
        raw = b'{"model":"mlp","inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,NaN]}]}'
        assert (await client.post("/v1/infer", content=raw)).json()["code"] == "invalid_request"
        gone = await client.post("/v1/infer", json={"model": "gone", "inputs": [good]})
        assert (gone.status_code, gone.json()["code"]) == (404, "model_not_found")
        text = await client.post("/v1/infer", json={"model": "mlp", "text": "a"})
        assert text.json()["errors"][0]["pointer"] == "/text"
        large = await client.post("/v1/infer", content=b" " * (64 * 1024 + 8 * 1024 + 1))
        assert (large.status_code, large.json()["code"]) == (413, "body_too_large")
        mixed = {
            "inputs": [{"model": "mlp", "inputs": [good]}, {"model": "mlp", "inputs": [{**good, "data": []}]}]
        }
        answer = await client.post("/v1/infer/batch", json=mixed)
        one, other = answer.json()["jobs"]
        assert "job_id" in one
        assert other["error"]["errors"][0]["pointer"] == "/inputs/1/inputs/0/data"


async def test_jobs_wait_for_a_batcher_and_readiness_says_so(streams: Deployment, root: Path) -> None:
    """A model without a batcher takes jobs all the same; the ingress is ready, and names it."""
    async with served(streams, root) as client:

        async def missing() -> set[str]:
            answer = await client.get("/readyz")
            assert answer.status_code == 200
            return set(answer.json()["models_without_batcher"])

        assert {"mlp", "int64", "builtin"} <= await missing()
        answer = await client.post("/v1/infer", json=body_of("int64", {"x": np.array([[1, 2, 3]])}))
        job_id = answer.json()["job_id"]
        assert (await client.get(f"/v1/jobs/{job_id}")).json()["status"] == "queued"
        async with batching(streams, "int64", root):
            assert values(await ended(client, job_id)) == [-4, -1, 2]

            async def found() -> bool:
                return "int64" not in await missing()

            await eventually(found, what="its batcher's being seen")
            stats = (await client.get("/v1/stats")).json()
            assert [one["model"] for one in stats["batchers"]] == ["int64"]


async def test_a_job_that_raises_fails_alone(streams: Deployment, root: Path) -> None:
    """An id outside the table makes the run raise; its batch mates are answered."""
    async with served(streams, root) as client:
        ids = [np.array([[number, 1]]) for number in (3, 10_000, 4, 5)]
        answers = [await client.post("/v1/infer", json=body_of("embedding", {"ids": one})) for one in ids]
        async with batching(streams, "embedding", root):
            records = [await ended(client, answer.json()["job_id"]) for answer in answers]
    assert [record["status"] for record in records] == ["done", "failed", "done", "done"]
    assert records[1]["error"]["code"] == "inference_failed"
    assert {record["batch"]["close_reason"] for record in records if record["batch"]} >= {"split"}


async def test_outputs_that_cannot_be_kept_fail_their_job(streams: Deployment, root: Path) -> None:
    """One that is not finite fails by itself, one that is too large names the limit."""

    def number(value: float) -> Array:
        return np.array([[value]], dtype="f4")

    async with served(streams, root) as client:
        bodies = [body_of("divide", {"a": number(1), "b": number(by)}) for by in (2, 0, 4)]
        answers = [await client.post("/v1/infer", json=body) for body in bodies]
        async with batching(streams, "divide", root):
            half, infinite, quarter = [await ended(client, one.json()["job_id"]) for one in answers]
        assert (values(half), values(quarter)) == ([0.5], [0.25])
        assert infinite["error"]["code"] == "inference_failed"
        assert "'y' holds a number that is not finite" in infinite["error"]["detail"]
        long = np.ones((1, 5000), dtype="i1")
        async with batching(streams, "echo", root, INFERQ_MAX_OUTPUT_BYTES="4999"):
            large = await outcome(client, "echo", x=long)
            assert large["error"]["code"] == "inference_failed"
            assert "4999 (INFERQ_MAX_OUTPUT_BYTES)" in large["error"]["detail"]
            assert values(await outcome(client, "echo", x=long[:, 1:])) == [1] * 4999


@pytest.mark.parametrize("model", ["found", "muddled"])
async def test_outputs_that_count_something_else_are_not_mixed_up(
    streams: Deployment, root: Path, model: str
) -> None:
    """Rows of what was found belong to the job that they were found in: such jobs run alone, said or found out."""
    given = [np.eye(1, 4, index, dtype="i4") * 9 + np.eye(1, 4, 3, dtype="i4") for index in range(3)]
    async with served(streams, root) as client:
        answers = [await client.post("/v1/infer", json=body_of(model, {"x": one})) for one in given]
        async with batching(streams, model, root):
            records = [await ended(client, answer.json()["job_id"]) for answer in answers]
    assert [values(record) for record in records] == [[0, index, 0, 3] for index in range(3)]


@pytest.mark.parametrize("cache", ["local", "shared"])
async def test_equal_tensors_are_run_once(streams: Deployment, root: Path, cache: str) -> None:
    """The second answer is the first one's, kept where the setting says; other bytes are another input."""
    async with served(streams, root, "int64", INFERQ_CACHE=cache) as client:
        first = await outcome(client, "int64", x=np.array([[1, 2, 3]]))
        other = await outcome(client, "int64", x=np.array([[1, 2, 4]]))

        async def again() -> dict[str, Any] | None:
            record = await outcome(client, "int64", x=np.array([[1, 2, 3]]))
            # The ingress knows the batchers' digest within a second.
            return record if record["cached"] and (cache == "local" or record["attempt"] == 0) else None

        repeated: dict[str, Any] = await eventually(again, what="an answer from the cache")
    assert not first["cached"]
    assert values(repeated) == values(first) == [-4, -1, 2]
    assert values(other) == [-4, -1, 5]


async def test_a_text_model_beside_tensor_models(streams: Deployment, root: Path) -> None:
    """Each has its queue; the text's is the plain one."""
    options = {"INFERQ_MODEL": "simulated:1,1"}
    async with served(streams, root, "mlp", "", **options) as client:
        answer = await client.post("/v1/infer", json={"text": "a lovely film"})
        assert (await ended(client, answer.json()["job_id"]))["result"]["label"] in {"POSITIVE", "NEGATIVE"}
        record = await outcome(client, "mlp", x=np.ones((1, 4), dtype="f4"))
        assert record["result"]["outputs"][0]["shape"] == [1, 3]


async def test_the_client_takes_arrays_and_gives_arrays(streams: Deployment, root: Path) -> None:
    """Lists too; what the API refuses is an error as with texts."""
    async with (
        notifying(streams) as notifier,
        served(streams, root, "multi-output", INFERQ_PUBLIC_NOTIFIER_URL=notifier.url("")) as client,
        inferq.AsyncClient(str(client.base_url)) as ours,
    ):
        x = np.array([[1, -2, 3, 0.5]], dtype="f4")
        found = await ours.run_tensors({"x": x}, model="multi-output", timeout_s=60)
        np.testing.assert_array_equal(found["square"], x * x)
        np.testing.assert_array_equal(found["version"], [3, 14])
        np.testing.assert_array_equal(found["positive"], x > 0)
        job = await ours.submit_tensors({"x": x.tolist()}, model="multi-output", priority="bulk")
        again = await ours.outputs(job, timeout_s=60)
        np.testing.assert_array_equal(again["square"], found["square"])
        with pytest.raises(inferq.BadRequest, match="FP32"):
            await ours.submit_tensors({"x": [[1, 2, 3, 4]]}, model="multi-output")
        with pytest.raises(inferq.ModelNotFound):
            await ours.submit_tensors({"x": x}, model="gone")

        def blocking() -> Any:
            with inferq.Client(str(client.base_url)) as blocked:
                job = blocked.submit_tensors({"x": x}, model="multi-output")
                assert (blocked.outputs(job, timeout_s=60)["square"] == x * x).all()
                return blocked.run_tensors({"x": x}, model="multi-output", timeout_s=60)

        np.testing.assert_array_equal((await asyncio.to_thread(blocking))["square"], x * x)


async def test_large_tensors_go_through_either_broker(either: Deployment, root: Path) -> None:
    """A picture of 600 KB is many frames of a message; several meet in one batch."""
    session = onnxruntime.InferenceSession(root / "conv" / "model.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(11)
    given = [MODELS["conv"][1](rng) for _ in range(6)]
    async with served(either, root) as client:
        answers = [await client.post("/v1/infer", json=body_of("conv", feeds)) for feeds in given]
        assert {answer.status_code for answer in answers} == {202}
        async with batching(either, "conv", root):
            records = [await ended(client, answer.json()["job_id"]) for answer in answers]
    for record, feeds in zip(records, given, strict=True):
        check_outputs(record, session, feeds)
    assert max(record["batch"]["size"] for record in records) > 1


async def test_the_default_model_may_take_tensors(streams: Deployment, root: Path) -> None:
    """It has the plain queue, and need not be named."""
    options = {"INFERQ_MODEL": str(root / "mlp"), "INFERQ_MODELS": ""}
    session = onnxruntime.InferenceSession(root / "mlp" / "model.onnx", providers=["CPUExecutionProvider"])
    feeds = {"x": np.array([[1, 2, 3, 4]], dtype="f4")}
    async with serving(streams, **options) as client, batching(streams, "", root, **options):
        await eventually(lambda: ready(client), what="readiness")
        answer = await client.post("/v1/infer", json={"inputs": body_of("mlp", feeds)["inputs"]})
        record = await ended(client, answer.json()["job_id"])
        assert record["model"] == "mlp"
        check_outputs(record, session, feeds)
        assert (await client.post("/v1/infer", json={"text": "a"})).status_code == 400
        assert "models_without_batcher" not in (await client.get("/readyz")).json()
