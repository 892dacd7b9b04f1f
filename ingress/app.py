"""The routes of the ingress."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from inferq import problems
from inferq.errors import Forbidden, HttpError
from inferq.keyring import KeyRing, the_one
from inferq.server import About, Checks, probe_routes
from inferq.telemetry import Metrics
from inferq.v2.routes import SyncRoutes
from inferq.visitors import Visitors
from ingress.description.serving import Descriptions
from ingress.events import Events
from ingress.infer import BATCH_PATH, INFER_PATH, SubmitEndpoint
from ingress.jobs import Jobs
from ingress.stats import Stats

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What answers; ``stream_url`` is what the notifier's addresses begin with, ``visitors`` judges who has no key."""

    infer: SubmitEndpoint
    batch: SubmitEndpoint
    jobs: Jobs
    events: Events
    calls: SyncRoutes
    stats: Stats
    keys: KeyRing
    visitors: Visitors
    stream_url: str


def make_routes(parts: Parts, metrics: Metrics, checks: Checks, about: About = dict) -> list[BaseRoute]:
    """Put the routes together, one for each path: a refused method is told all that the path takes."""

    async def job(request: Request) -> Response:
        if request.method == "DELETE":
            return await parts.jobs.cancel(request)
        return await parts.jobs.show(request)

    async def statistics(request: Request) -> Response:
        parts.keys.caller(the_one(request.scope["headers"]))
        return Response(await parts.stats.render(), media_type="application/json")

    async def overview(request: Request) -> Response:
        parts.keys.caller(the_one(request.scope["headers"]))
        return Response(parts.stats.overview(), media_type="application/json")

    return [
        Route(INFER_PATH, parts.infer, methods=["POST"]),
        Route(BATCH_PATH, parts.batch, methods=["POST"]),
        Route("/v1/jobs/{job_id}", job, methods=["GET", "DELETE"]),
        Route("/v1/jobs/{job_id}/events", parts.events, methods=["GET"]),
        *parts.calls.routes(),
        Route("/v1/stats", statistics, methods=["GET"]),
        Route("/stats", overview, methods=["GET"]),
        *probe_routes(metrics, checks, about),
        *Descriptions(parts.keys, stream_url=parts.stream_url).routes(),
    ]


def make_app(
    parts: Parts, metrics: Metrics, checks: Checks, about: About = dict, *, pages: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """Make the application; submits go to their endpoints directly, past router and middleware.

    ``pages`` are routes beside the API, for people; ``about`` is what else `/readyz` says.
    """
    submits = {INFER_PATH: parts.infer, BATCH_PATH: parts.batch}
    # The routes of submits are for other methods alone, which they refuse.
    others = Starlette(
        routes=[*make_routes(parts, metrics, checks, about), *pages],
        exception_handlers={
            HttpError: problems.handled,
            HTTPException: problems.http("/docs lists what there is"),
            Exception: _internal,
        },
    )
    # A path with a slash too many is another path, and a client that follows would send its body twice.
    others.router.redirect_slashes = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not parts.keys.keys:
            try:
                parts.visitors.admit(scope["method"], scope["headers"])
            except Forbidden as error:
                await problems.response(error)(scope, receive, send)
                return
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in submits:
            await submits[scope["path"]](scope, receive, send)
        else:
            await others(scope, receive, send)

    return app


async def _internal(_: Request, error: Exception) -> Response:
    _log.error("ingress.internal_error", exc_info=error)
    return problems.internal()
