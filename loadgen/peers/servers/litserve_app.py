"""`python -m loadgen.peers.servers.litserve_app`: the model behind LitServe, with its workers and one front."""

from typing import Any

import litserve

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import HOST, PATH, ordered


class Api(litserve.LitAPI):
    """Texts of several requests come as one list."""

    def setup(self, device: str) -> None:
        """Load the model, in the worker's process."""
        self.classifier = Classifier(ordered())

    def decode_request(self, request: dict[str, str]) -> str:
        """Return the text of a request."""
        return request["text"]

    def batch(self, inputs: list[str]) -> list[str]:
        """Return texts as they are; by itself LitServe would make an array of them."""
        return inputs

    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        """Answer a batch."""
        return self.classifier(texts)

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return answers as they are."""
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        return output


def main() -> None:
    """Serve until SIGTERM."""
    order = ordered()
    api = Api(max_batch_size=order.rows, batch_timeout=order.wait_ms / 1000, api_path=PATH)
    server = litserve.LitServer(
        api, accelerator="cpu", workers_per_device=order.workers, timeout=120, fast_queue=True
    )
    server.run(host=HOST, port=order.port, num_api_servers=1, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
