"""A model whose files were not there when the ingress started: its batcher says what it is."""

from pathlib import Path

import httpx

from inferq import hub
from inferq.modelspec import parse
from tests.deployment import Deployment
from tests.encodermodels import WIDTH, make_encoder
from tests.hubstandin import HubStandIn, files_of
from tests.hubstandin import serving as hub_serving
from tests.serving import batching, ready, serving
from tests.support import eventually
from tests.tensormodels import MODELS, write_model

COMMIT = "c" * 40


async def code_of(client: httpx.AsyncClient, path: str, body: object = None) -> int:
    """Return the status of an answer to a `POST`, or without a body to a `GET`."""
    answer = await (client.get(path) if body is None else client.post(path, json=body))
    return answer.status_code


async def test_a_model_of_the_hub_is_known_once_it_is_downloaded(streams: Deployment, tmp_path: Path) -> None:
    """Before, nothing is refused for good that it may take; then it is called, and shown, as what it is."""
    source = make_encoder(tmp_path / "source", modules=("Transformer", "Pooling", "Normalize"))
    spec, cache = f"hub:owner/e5@{COMMIT}", tmp_path / "cache"
    given = {"INFERQ_MODEL": spec, "INFERQ_CACHE_DIR": str(cache)}
    async with serving(streams, **given) as client:
        await eventually(lambda: ready(client), what="readiness")
        asked = {"model": "e5", "input": "a b"}
        refused = await client.post("/v1/embeddings", json=asked)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "known once a batcher has its files" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert await code_of(client, "/v2/models/e5") == 503
        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
        assert await code_of(client, "/v1/infer", {"inputs": [tensor]}) == 503
        assert await code_of(client, "/infer", {"request_id": "1", "input_data": [1.0]}) == 503
        assert await code_of(client, "/v1/infer", {"text": "a b"}) == 202
        assert '<meta name="inferq-answers" content="">' in (await client.get("/")).text
        with hub_serving(HubStandIn(repo="owner/e5", commit=COMMIT, files=files_of(source))) as standin:
            hub.resolve(parse(spec), cache_dir=cache, endpoint=standin.endpoint)
        async with batching(streams, "", None, **given):

            async def known() -> bool:
                return await code_of(client, "/v2/models/e5") == 200

            await eventually(known, 20, what="a model that is known")
            (found,) = (await client.post("/v1/embeddings", json=asked)).json()["data"]
            assert len(found["embedding"]) == WIDTH
            (output,) = (await client.get("/v2/models/e5")).json()["outputs"]
            assert (output["name"], output["datatype"]) == ("embedding", "FP32")
            assert await code_of(client, "/v1/infer", {"inputs": [tensor]}) == 404
            assert '<meta name="inferq-answers" content="embedding">' in (await client.get("/")).text


async def test_a_folder_that_the_batcher_alone_has_may_take_tensors(
    streams: Deployment, tmp_path: Path
) -> None:
    """What it takes comes from the batcher, and is checked by it before the queue."""
    folder = tmp_path / "mlp"
    given = {"INFERQ_MODEL": str(folder)}
    async with serving(streams, **given) as client:
        await eventually(lambda: ready(client), what="readiness")
        accepted = (await client.post("/v1/infer", json={"text": "a"})).json()
        write_model(folder, MODELS["mlp"][0]())
        async with batching(streams, "", None, **given):

            async def done() -> bool:
                return await code_of(client, "/infer", {"request_id": "1", "input_data": [1, 2, 3, 4]}) == 200

            await eventually(done, 20, what="an answer")
            answer = await client.post("/v1/infer", json={"input_data": [1, 2, 3]})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
            # A text that was taken before ends as one that the model cannot take.
            record = (await client.get(f"/v1/jobs/{accepted['job_id']}?wait=20")).json()
            assert (record["status"], record["error"]["code"]) == ("failed", "invalid_input")
            page = (await client.get("/")).text
            assert '<meta name="inferq-answers" content="tensors">' in page
            assert '<meta name="inferq-inputs" content="x FP32 [-1, 4]">' in page
