"""`bentoml serve loadgen.peers.servers.bento_app:Classify`: the model behind BentoML's adaptive batching."""

from typing import Annotated, Any

import bentoml
from pydantic import BeforeValidator

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import PATH, ordered

ORDER = ordered()


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# A batchable method takes a list; each request of ours holds one text.
Texts = Annotated[list[str], BeforeValidator(_listed)]


@bentoml.service(
    workers=ORDER.workers,
    traffic={"timeout": 120, "max_concurrency": 1024},
    logging={"access": {"enabled": False}},
    metrics={"enabled": False},
)
class Classify:
    """Each worker has a session."""

    def __init__(self) -> None:
        self.classifier = Classifier(ORDER)

    @bentoml.api(route=PATH, batchable=True, max_batch_size=ORDER.rows, max_latency_ms=round(ORDER.wait_ms))
    def predict(self, text: Texts) -> list[dict[str, Any]]:
        """Answer a batch."""
        return self.classifier(text)
