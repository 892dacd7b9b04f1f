"""What a peer is told: what to serve and where. Pure; harness and servers share it, so it imports nothing else."""

import json
import os
from dataclasses import asdict, dataclass
from typing import Final

VARIABLE: Final = "PEER_ORDER"
PATH: Final = "/predict"
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a peer is to serve, and where: handed over in the environment, since URLs hold passwords.

    ``workers`` run a session of ``threads`` threads each. ``rows`` is the most texts of a batch, ``wait_ms`` how long a
    batch is waited for, ``max_length`` in tokens. ``spin`` lets the threads of a session wait for their next work by
    spinning, as ONNX Runtime does by default.
    """

    folder: str
    labels: tuple[str, ...]
    max_length: int
    pad_id: int
    threads: int
    workers: int
    rows: int
    port: int
    wait_ms: float
    spin: bool = False
    broker_url: str = ""
    results_url: str = ""


def encoded(order: Order) -> str:
    """Return an order as it travels."""
    return json.dumps(asdict(order))


def ordered() -> Order:
    """Return the order of this process."""
    fields = json.loads(os.environ[VARIABLE])
    return Order(**{**fields, "labels": tuple(fields["labels"])})
