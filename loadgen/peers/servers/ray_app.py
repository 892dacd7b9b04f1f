"""`python -m loadgen.peers.servers.ray_app`: the model behind Ray Serve, with its replicas and one proxy."""

import os
import signal
from typing import Any

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import HOST, PATH, VARIABLE, ordered

ORDER = ordered()
# Requests that may be with the replica at a time: what batches are made of. Five, as by itself, would fill none.
ONGOING = 256


@serve.deployment(num_replicas=ORDER.workers, max_ongoing_requests=ONGOING, ray_actor_options={"num_cpus": 1})
class Classify:
    """Each replica has a session."""

    def __init__(self) -> None:
        self.classifier = Classifier(ORDER)

    @serve.batch(max_batch_size=ORDER.rows, batch_wait_timeout_s=ORDER.wait_ms / 1000)
    async def classify(self, texts: list[str]) -> list[dict[str, Any]]:
        """Answer a batch."""
        return self.classifier(texts)

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        text = (await request.json())["text"]
        return JSONResponse(await self.classify(text))


def main() -> None:
    """Serve until SIGTERM."""
    ending = {signal.SIGTERM, signal.SIGINT}
    ray.init(
        num_cpus=max(ORDER.threads * ORDER.workers, 2),
        _node_ip_address=HOST,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
        runtime_env={"env_vars": {VARIABLE: os.environ[VARIABLE]}},
    )
    serve.start(http_options={"host": HOST, "port": ORDER.port})
    serve.run(Classify.bind(), route_prefix=PATH)  # type: ignore[attr-defined]  # the decorator is Any
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    signal.sigwait(ending)
    ray.shutdown()


if __name__ == "__main__":
    main()
