"""`python -m loadgen.peers.servers.mosec_app`: the model behind mosec's front in Rust, with its workers.

Its arguments come after this module's name, as mosec wants them: `--port`, `--wait` and their like.
"""

from typing import Any

from mosec import Server, Worker

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import PATH, ordered


class Classify(Worker):
    """Takes batches, since it is appended with a size above 1."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = Classifier(ordered())

    def forward(self, data: list[dict[str, str]]) -> list[dict[str, Any]]:
        """Answer a batch."""
        return self.classifier([one["text"] for one in data])


def main() -> None:
    """Serve until SIGTERM."""
    order = ordered()
    server = Server()
    wait_ms = round(order.wait_ms)
    server.append_worker(
        Classify, num=order.workers, max_batch_size=order.rows, max_wait_time=wait_ms, route=PATH
    )
    server.run()


if __name__ == "__main__":
    main()
