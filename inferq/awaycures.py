"""What to do about a server that is away, and which setting names it. Pure."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from inferq.settings import Settings

REDIS_AWAY: Final = "start that Redis, or correct INFERQ_REDIS_URL"
BROKER_AWAY: Final = "start that broker, or correct INFERQ_BROKER_URL"


def away_cures(settings: Settings) -> Mapping[str, str]:
    """Return the cures by what `/readyz` calls the servers; one that `inferq up` starts itself has none."""
    cures = {"redis": REDIS_AWAY} if settings.redis_url else {}
    if urlsplit(settings.broker_url).scheme in {"amqp", "amqps"}:
        cures["broker"] = BROKER_AWAY
    elif settings.redis_url and settings.broker_url in {"", settings.redis_url}:
        cures["broker"] = REDIS_AWAY
    return cures
