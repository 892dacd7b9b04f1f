"""The doctor's call of a batcher, past the queue: of each kind of model, and what it says when that fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from inferq.cli.deployment import Endpoint
from inferq.cli.examining import directcall, onejob
from inferq.cli.examining.directcall import CallFailed, call_batcher
from inferq.cli.examining.finding import Grade
from inferq.cli.examining.services import look_at_batcher
from inferq.ports import LOOPBACK
from inferq.runfile import RunningService
from inferq.server import listen, make_server, serve_until
from tests.answers import bearer
from tests.deployment import Deployment
from tests.doctoring import settings_of
from tests.encodermodels import make_encoder
from tests.faultfile import FaultFile
from tests.support import eventually
from tests.syncrig import batching, ready
from tests.tensormodels import write_all

KEY = "alice-0123456789"
KEYS = f"alice:{KEY}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of tensors and one of embeddings, each in its folder."""
    folder = write_all(tmp_path_factory.mktemp("doctor") / "models")
    make_encoder(folder / "embed", modules=("Transformer", "Pooling"))
    return folder


def service_of(client: httpx.AsyncClient) -> RunningService:
    """Return the batcher that a client asks."""
    port = client.base_url.port
    assert port is not None
    return RunningService(name="batcher-1", host=client.base_url.host, port=port)


@pytest.mark.parametrize(
    ("model", "answers"),
    [
        ("", "label, score, scores"), ("embed", "embedding"), ("mlp", "y"), ("multi-input", ""), ("lengths", ""),
        ("float16", ""), ("int64", ""),
    ],
)  # fmt: skip  # models side by side
async def test_a_batcher_is_called_as_its_model_takes_it(
    streams: Deployment, root: Path, model: str, answers: str
) -> None:
    """A text, or zeros of each input; the key goes along, and each call is computed."""
    async with batching(streams, model, root, INFERQ_API_KEYS=KEYS) as client:
        client.headers.update(bearer(KEY))
        await ready(client)
        for _ in range(2):
            (found,) = await look_at_batcher(service_of(client), KEY)
            assert found.grade is Grade.OK, found
            assert f"a call answers {answers}" in found.detail
        health = (await client.get("/health")).json()
        assert health["total_requests"] == health["batch_processor"]["total_batches"] == 2
        assert health["cache_hits"] == 0


async def test_a_batcher_that_asks_for_another_key(streams: Deployment) -> None:
    """It is wrong, with where a key is given; no key is shown."""
    async with batching(streams, "", None, INFERQ_MODEL="simulated:1,0.1", INFERQ_API_KEYS=KEYS) as client:
        client.headers.update(bearer(KEY))
        await ready(client)
        for key in (None, "another-0123456789"):
            (found,) = await look_at_batcher(service_of(client), key)
            assert found.grade is Grade.WRONG
            assert "it answers a call 401" in found.detail
            assert "INFERQ_API_KEY" in found.cure
            assert "another-0123456789" not in str(found)


async def test_an_engine_that_answers_nothing(streams: Deployment, tmp_path: Path) -> None:
    """Its failure is told with the log to look at, and once it has its rest the batcher says that itself."""
    faults = FaultFile(tmp_path / "faults")
    options = {"INFERQ_MODEL": faults.model, "INFERQ_BREAKER_FAILURES": "1"}
    async with batching(streams, "", None, **options) as client:
        await ready(client)
        faults.order("raise")
        (found,) = await look_at_batcher(service_of(client))
        assert found.grade is Grade.WRONG
        assert "it answers a call 503" in found.detail
        assert "given a rest" in found.detail
        assert "the batcher's log" in found.cure

        async def resting() -> Any:
            (again,) = await look_at_batcher(service_of(client))
            return "call" not in again.detail and again

        again = await eventually(resting, what="a batcher that says so itself")
        assert again.grade is Grade.WRONG


@asynccontextmanager
async def answering(body: bytes, status: int = 200) -> AsyncIterator[RunningService]:
    """Serve the same answer to every request, in the place of a batcher."""

    async def answer(_: Any) -> Response:
        return Response(body, status_code=status)

    listener, stopping = listen(LOOPBACK, 0, setting="INFERQ_BATCHER_PORT"), asyncio.Event()
    server = make_server(Starlette(routes=[Route("/{path:path}", answer)]))
    serving = asyncio.create_task(serve_until(server, listener, stopping))
    try:
        yield RunningService(name="batcher-1", host=LOOPBACK, port=listener.getsockname()[1])
    finally:
        stopping.set()
        await serving
        listener.close()


@pytest.mark.parametrize(
    ("status", "body", "said", "cure"),
    [
        (200, b"{}", "otherwise than the protocol says", "restart it"),
        (
            200,
            b'{"name":"m","versions":[],"platform":"p","inputs":[{"name":"x","datatype":"FP5","shape":[-1]}],'
            b'"outputs":[]}',
            "otherwise than the protocol says",
            "restart it",
        ),
        (404, b'{"error":"No such model"}', "404: No such model", "restart it"),
        (500, b'{"error":"x"}', "500: x", "inferq model check"),
        (504, b'{"error":"late"}', "504: late", "its engine hangs"),
        (418, b"tea", "418: no reason is given", "see the batcher's log"),
    ],
)
async def test_each_failure_has_its_cure(status: int, body: bytes, said: str, cure: str) -> None:
    """Whatever answers there."""
    async with answering(body, status) as service:
        with pytest.raises(CallFailed, match=said) as caught:
            await call_batcher(service, "m", None)
    assert cure in caught.value.cure


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"tea", b'{"healthy":true}', b'{"healthy":true,"batch_processor":5}']
)
async def test_what_is_no_batcher_of_ours_is_told_as_such(body: bytes) -> None:
    """Another program, or a batcher of another version, may answer anything."""
    async with answering(body) as service:
        (found,) = await look_at_batcher(service)
    assert found.grade is Grade.WRONG
    assert "says nothing of its health" in found.detail
    assert "see the finding batcher-1 above" in found.cure


async def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a batcher or an ingress that is none: each byte comes in time, and so the whole never would."""
    monkeypatch.setattr(directcall, "_WHOLE_S", 0.3)
    monkeypatch.setattr(onejob, "WHOLE_S", 0.3)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        with suppress(ConnectionError, asyncio.CancelledError):
            while True:
                writer.write(b" ")
                await writer.drain()
                # The pace is what is tried.
                await asyncio.sleep(0.05)
        writer.close()

    async with await asyncio.start_server(drip, LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(CallFailed, match="comes to no end"):
            await call_batcher(RunningService(name="batcher-1", host=LOOPBACK, port=port), "m", None)
        found = await onejob.send_one(
            Endpoint(url=f"http://{LOOPBACK}:{port}", key=None), settings_of("redis://h")
        )
    assert found.grade is Grade.WRONG
    assert "nothing came to an end" in found.detail
    assert "see whether it is our ingress" in found.cure
