"""`python -m loadgen.baselines.bare --port P`: what Starlette costs when nothing is done.

One route, a typed body decoded and a 202 encoded by msgspec; no middleware of ours, no storage, no queue, no metrics.
No Python service on this stack accepts faster, so what ours reaches of it is what recording and enqueueing leave.
"""

import os

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loadgen.baselines.answer import accepted, decode
from loadgen.baselines.serving import serve


async def infer(request: Request) -> Response:
    """Answer 202 for a well-formed submit, 400 for any other."""
    try:
        decode(await request.body())
    except msgspec.DecodeError:
        return Response(status_code=400)
    return Response(accepted(os.urandom(16).hex()), status_code=202, media_type="application/json")


app = Starlette(routes=[Route("/v1/infer", infer, methods=["POST"])])


if __name__ == "__main__":
    serve(app, program="loadgen.baselines.bare", about="a bare Starlette app", lifespan=False)
