"""What a peer is told."""

import pytest

from loadgen.peers.servers.order import VARIABLE, Order, encoded, ordered


def test_an_order_comes_out_of_the_environment_as_it_went_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field travels, labels as a tuple."""
    order = Order(
        folder="/models/one",
        labels=("NEGATIVE", "POSITIVE"),
        max_length=128,
        pad_id=0,
        threads=2,
        workers=3,
        rows=16,
        port=20_000,
        wait_ms=2.5,
        broker_url="amqp://somebody:secret@127.0.0.1",
        results_url="redis://127.0.0.1/0",
    )
    monkeypatch.setenv(VARIABLE, encoded(order))
    assert ordered() == order
