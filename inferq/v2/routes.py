"""The routes of synchronous calls, on whatever service answers them.

A call is answered within its time or not at all. Whoever leaves, and whose time is over, has his call cancelled: then
the backend sees to it that nothing more is computed for him.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive

from inferq import bodies, problemdoc, problems
from inferq.apikeys import Caller
from inferq.background import end
from inferq.cachecontrol import wants_cached
from inferq.catalog import ModelCard, find, require_known
from inferq.errors import HttpError, ModelNotFound, TimedOut, Unavailable, forget_frames
from inferq.gate import Gate
from inferq.keyring import KeyRing, the_one
from inferq.limits import JSON_BYTES_A_BYTE, MOST_BODY_BYTES
from inferq.mediatype import check_headers
from inferq.telemetry import Metrics
from inferq.tensors.binary import HEADER
from inferq.v2 import answers, embeddings, requests, simple
from inferq.v2.calls import Answer, Backend, Call
from inferq.visitors import Visitors

USUAL_BYTES: Final = 64 * 1024
# Of as many texts as one call may have.
TEXTS_BYTES: Final = 4 * 1024 * 1024

INFER: Final = "/infer"
EMBEDDINGS: Final = "/v1/embeddings"
V2: Final = "/v2"
MODEL: Final = V2 + "/models/{model}"
VERSION: Final = MODEL + "/versions/{version}"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How one kind of calls has its errors written."""

    name: str
    media_type: str
    error: Callable[[HttpError], bytes]

    def refusal(self, error: HttpError) -> Response:
        return Response(
            self.error(error), status_code=error.status, headers=error.headers, media_type=self.media_type
        )


_PROTOCOL: Final = _Form(name="v2", media_type="application/json", error=answers.fault)
_PLAIN: Final = _Form(name="infer", media_type=problemdoc.MEDIA_TYPE, error=problemdoc.of)
_EMBEDDINGS: Final = _Form(name="embeddings", media_type=problemdoc.MEDIA_TYPE, error=problemdoc.for_openai)

_Work = Callable[[Request], Awaitable[Response]]


class SyncRoutes:
    """Answers synchronous calls; a job's tensors hold at most ``max_input_bytes``.

    ``visitors`` judge who has no key, where the application around these routes does not.
    """

    def __init__(
        self,
        backend: Backend,
        keys: KeyRing,
        metrics: Metrics,
        *,
        max_input_bytes: int,
        visitors: Visitors | None = None,
    ) -> None:
        self._backend, self._keys, self._visitors = backend, keys, visitors
        self._max_input_bytes = max_input_bytes
        self._most_bytes = min(MOST_BODY_BYTES, max(TEXTS_BYTES, JSON_BYTES_A_BYTE * max_input_bytes))
        self._gate = Gate()
        self._calls = metrics.counter("calls", "Synchronous calls by form and status", "form", "status")
        self._seconds = metrics.seconds("call", "From a synchronous call's last byte to its answer")
        self._under_way = metrics.gauge("calls_under_way", "Synchronous calls that are being answered")

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            self._route(INFER, _PLAIN, self._infer, "POST"),
            self._route(EMBEDDINGS, _EMBEDDINGS, self._embed, "POST"),
            self._route(V2, _PROTOCOL, self._server),
            self._route(V2 + "/health/live", _PROTOCOL, self._live),
            self._route(V2 + "/health/ready", _PROTOCOL, self._ready),
            *(
                route
                for path in (MODEL, VERSION)
                for route in (
                    self._route(path, _PROTOCOL, self._model),
                    self._route(path + "/ready", _PROTOCOL, self._model_ready),
                    self._route(path + "/infer", _PROTOCOL, self._infer_model, "POST"),
                )
            ),
        ]

    def _route(self, path: str, form: _Form, work: _Work, method: str = "GET") -> Route:
        async def answer(request: Request) -> Response:
            try:
                if self._visitors is not None and not self._keys.keys:
                    self._visitors.admit(request.method, request.scope["headers"])
                response = await work(request)
            except HttpError as error:
                response = form.refusal(error)
                # With them goes all that was sent.
                forget_frames(error)
            except bodies.Disconnected:
                # Nobody reads it.
                response = Response(status_code=499)
            except Exception as error:
                _log.error("calls.internal_error", exc_info=error)
                response = Response(_INTERNAL[form.name], status_code=500, media_type=form.media_type)
            if method == "POST":
                self._calls.labels(form.name, response.status_code).inc()
            return response

        return Route(path, answer, methods=[method])

    async def _infer(self, request: Request) -> Response:
        caller = self._caller(request)
        async with self._body(request) as body:
            asked, call = simple.parse(
                body, self._backend.catalog, max_bytes=self._max_input_bytes, cached=_cached(request)
            )
        del body  # Its bytes are not counted any more, so nobody who waits is to hold them.
        (found,) = await self._run(call, caller, request.receive)
        return _json(answers.encode(simple.answer(asked, found)))

    async def _embed(self, request: Request) -> Response:
        caller = self._caller(request)
        async with self._body(request) as body:
            asked, call = embeddings.parse(body, self._backend.catalog, cached=_cached(request))
        del body  # Its bytes are not counted any more, so nobody who waits is to hold them.
        found = await self._run(call, caller, request.receive)
        return _json(answers.encode(embeddings.answer(asked, call, [one.result for one in found])))

    async def _infer_model(self, request: Request) -> Response:
        caller = self._caller(request)
        card = self._card(request)
        length = request.headers.get(HEADER)
        async with self._body(request, binary=length is not None) as body:
            call, wanted = requests.parse(
                body, length, card, max_bytes=self._max_input_bytes, cached=_cached(request)
            )
        del body  # Its bytes are not counted any more, so nobody who waits is to hold them.
        found = await self._run(call, caller, request.receive)
        content, json_length = answers.write([one.result for one in found], card, wanted)
        if json_length is None:
            return _json(content)
        return Response(content, media_type="application/octet-stream", headers={HEADER: json_length})

    async def _server(self, _: Request) -> Response:
        found = answers.ServerMetadata(
            name="inferq", version=version("inferq"), extensions=list(answers.EXTENSIONS)
        )
        return _json(answers.encode(found))

    async def _live(self, _: Request) -> Response:
        return _json(answers.encode(answers.Live()))

    async def _ready(self, _: Request) -> Response:
        if complaint := await self._backend.complaint():
            raise Unavailable(complaint)
        return _json(answers.encode(answers.Ready()))

    async def _model(self, request: Request) -> Response:
        self._caller(request)
        card = require_known(self._card(request))
        return _json(answers.encode(answers.metadata(card)))

    async def _model_ready(self, request: Request) -> Response:
        self._caller(request)
        card = self._card(request)
        if not self._backend.served(card.name):
            raise Unavailable(f"no batcher serves {card.name!r} at present")
        return _json(answers.encode(answers.ModelReady(name=card.name)))

    def _card(self, request: Request) -> ModelCard:
        card = find(self._backend.catalog, request.path_params["model"])
        if request.path_params.get("version", answers.VERSION) != answers.VERSION:
            raise ModelNotFound(f"of each model there is the version {answers.VERSION} alone")
        return card

    def _caller(self, request: Request) -> Caller:
        return self._keys.caller(the_one(request.scope["headers"]))

    def _body(self, request: Request, *, binary: bool = False) -> "_Body":
        _check_type(request, binary=binary)
        return _Body(request, self._gate, self._most_bytes)

    async def _run(self, call: Call, caller: Caller, receive: Receive) -> Sequence[Answer]:
        """Return a call's answers; raises `HttpError`, or `bodies.Disconnected` when nobody waits for them any more."""
        begun_s = time.perf_counter()
        work = asyncio.create_task(_answers(self._backend, call, caller), name="call")
        leaving = asyncio.create_task(_left(receive), name="client-leaves")
        self._under_way.inc()
        try:
            done, _ = await asyncio.wait(
                {work, leaving}, timeout=call.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                return work.result()
            if leaving in done:
                raise bodies.Disconnected
            raise TimedOut(f"there was no answer within {call.timeout_s:g} s")
        finally:
            self._under_way.dec()
            await end(work, leaving)
            self._seconds.observe(time.perf_counter() - begun_s)


class _Body:
    """A request's body, whose bytes count as long as it is looked at."""

    def __init__(self, request: Request, gate: Gate, most_bytes: int) -> None:
        self._request, self._gate, self._most_bytes = request, gate, most_bytes
        self._held = 0

    async def __aenter__(self) -> bytes:
        declared = self._request.headers.get("content-length", "0").encode("latin-1")
        body = await bodies.read_either(
            self._request.receive,
            self._gate,
            declared=declared,
            usual_bytes=USUAL_BYTES,
            most_bytes=self._most_bytes,
        )
        self._held = len(body) if len(body) > USUAL_BYTES else 0
        return body

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave(0, self._held)


_INTERNAL: Final = {
    "v2": answers.encode(answers.CallFault(error="the fault is ours; it is in the log")),
    **dict.fromkeys(("infer", "embeddings"), bytes(problems.internal().body)),
}


async def _answers(backend: Backend, call: Call, caller: Caller) -> Sequence[Answer]:
    return await backend.answers(call, caller)


async def _left(receive: Receive) -> None:
    """Wait until the client is gone; what it still sends is of no interest."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _cached(request: Request) -> bool:
    return all(wants_cached(said.encode("latin-1")) for said in request.headers.getlist("cache-control"))


def _check_type(request: Request, *, binary: bool) -> None:
    """Refuse what is no JSON. The client of Triton sends it without any type, or with one of bytes."""
    kind, encoding = (request.headers.get(name) for name in ("content-type", "content-encoding"))
    check_headers(
        None if kind is None else kind.encode("latin-1"),
        None if encoding is None else encoding.encode("latin-1"),
        binary=binary,
    )
