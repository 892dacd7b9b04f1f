"""`python -m tests.integration.peers.plainpeer`: a peer that our own environment can run, without batches.

`PLAIN_PEER` orders what else it does: `wrong` answers, `ends` at once, or `leaves` a process behind that has left its
parent, its session and its pipes, and does not end when it is asked to.
"""

import os
import subprocess
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import HOST, PATH, ordered

STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def main(orders: str) -> None:
    """Serve until SIGTERM."""
    order = ordered()
    if orders == "ends":
        sys.exit("it does not feel like it")
    if orders.startswith("leaves"):
        left = subprocess.Popen([sys.executable, "-c", STAYS], start_new_session=True)
        Path(orders.partition(" ")[2]).write_text(str(left.pid))
    classifier = Classifier(order)

    async def predict(request: Request) -> Response:
        answer = classifier([(await request.json())["text"]])[0]
        if orders == "wrong":
            answer["scores"] = dict.fromkeys(answer["scores"], 0.5)
        return JSONResponse(answer)

    app = Starlette(routes=[Route(PATH, predict, methods=["POST"])])
    uvicorn.run(app, host=HOST, port=order.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(os.environ.get("PLAIN_PEER", ""))
