"""The cure for a server that is away names the setting that names the server."""

import pytest

from inferq.awaycures import BROKER_AWAY, REDIS_AWAY, away_cures
from inferq.settings import load

REDIS = "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize(
    ("redis", "broker", "cures"),
    [
        ("", "", {}),
        ("", "rabbitmq", {}),
        ("", "amqp://h/", {"broker": BROKER_AWAY}),
        (REDIS, "", {"redis": REDIS_AWAY, "broker": REDIS_AWAY}),
        (REDIS, REDIS, {"redis": REDIS_AWAY, "broker": REDIS_AWAY}),
        (REDIS, "rabbitmq", {"redis": REDIS_AWAY}),
        (REDIS, "amqps://h/", {"redis": REDIS_AWAY, "broker": BROKER_AWAY}),
    ],
)
def test_each_named_server_has_its_cure(redis: str, broker: str, cures: dict[str, str]) -> None:
    """A queue that lives in Redis goes by the Redis' setting; embedded servers are nobody's to name."""
    settings, _ = load({}, {"redis_url": redis, "broker_url": broker})
    assert away_cures(settings) == cures
