"""The routes of the ingress."""

import re
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from inferq.errors import HttpError, JobNotFound
from inferq.server import Checks, probe_routes
from inferq.store import Store
from inferq.telemetry import Metrics
from ingress import problems
from ingress.infer import InferEndpoint
from ingress.stats import Stats

INFER_PATH: Final = "/v1/infer"
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_log = structlog.get_logger(__name__)


def make_app(infer: InferEndpoint, store: Store, stats: Stats, metrics: Metrics, checks: Checks) -> ASGIApp:
    """Put the routes together; submits go to their endpoint directly, past router and middleware."""

    async def job(request: Request) -> Response:
        job_id = request.path_params["job_id"]
        record = await store.read(job_id) if _JOB_ID.fullmatch(job_id) else None
        if record is None:
            raise JobNotFound("no job has this id, or its record has expired")
        return Response(record, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def statistics(_: Request) -> Response:
        return Response(await stats.render(), media_type="application/json")

    others = Starlette(
        routes=[
            # For other methods alone, which it refuses.
            Route(INFER_PATH, infer, methods=["POST"]),
            Route("/v1/jobs/{job_id}", job, methods=["GET"]),
            Route("/v1/stats", statistics, methods=["GET"]),
            *probe_routes(metrics, checks),
        ],
        exception_handlers={
            HttpError: _problem,
            HTTPException: _http,
            Exception: _internal,
        },
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == INFER_PATH and scope["method"] == "POST":
            await infer(scope, receive, send)
        else:
            await others(scope, receive, send)

    return app


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return problems.response(error)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        response = problems.plain(
            405, "method_not_allowed", "Method not allowed", "this path takes other methods"
        )
        response.headers.update(error.headers or {})
        return response
    return problems.plain(error.status_code, "not_found", "No such path", "there is nothing at this path")


async def _internal(_: Request, error: Exception) -> Response:
    _log.error("ingress.internal_error", exc_info=error)
    return problems.internal()
