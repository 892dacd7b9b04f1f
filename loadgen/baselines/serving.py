"""How both baselines are served: one uvicorn process, set up as ours is."""

import argparse

import uvicorn
from starlette.types import ASGIApp

from inferq.ports import LOOPBACK


def serve(app: ASGIApp, *, program: str, about: str, lifespan: bool) -> None:
    """Serve an application on the port that the command line names, until SIGTERM.

    uvloop, httptools, no access log, and neither a `Server` nor a `Date` header nor belief in a proxy's: whatever ours
    saves by uvicorn's settings, a baseline saves as well. What it saves by code of its own, answers in one write and
    rare collection of garbage, is part of what is compared.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--port", type=int, required=True, help="where to listen, on loopback")
    uvicorn.run(
        app,
        host=LOOPBACK,
        port=parser.parse_args().port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on" if lifespan else "off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=2048,
    )
