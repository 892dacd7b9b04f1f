"""RabbitMQ's management API, asked with the user and password of the broker's own URL."""

import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import httpx
import msgspec

from inferq.addresses import LOOPBACK, host_port
from inferq.redaction import redact
from inferq.settings import Settings

PORT: Final = 15672
TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class Management:
    """What it told: ``missing`` says why nothing. Queues are those of the broker's virtual host."""

    url: str
    missing: str = ""
    version: str = ""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    queues: list[dict[str, Any]] = field(default_factory=list)
    ahead_ms: float | None = None


async def ask_management(settings: Settings) -> Management:
    """Return what the management API tells, or why it tells nothing."""
    broker = urlsplit(settings.broker_url)
    host = str(broker.hostname or LOOPBACK)
    url = (settings.broker_ui_url or f"http://{host_port(host, PORT)}").rstrip("/")
    shown = redact(url)
    # A password that reached the broker encrypted, or elsewhere, must not go over the network in the clear.
    place = urlsplit(url)
    local = place.hostname in {LOOPBACK, "::1", "localhost"}
    known = place.scheme == "https" or (broker.scheme == "amqp" and place.hostname == host)
    if not (local or known):
        return Management(url=shown, missing="it is not asked, as the password would go there in the clear")
    login = (unquote(broker.username or "guest"), unquote(broker.password or "guest"))
    vhost = quote(unquote(broker.path[1:]) or "/", safe="")
    try:
        async with httpx.AsyncClient(auth=login, timeout=TIMEOUT_S, trust_env=False) as client:
            begun_s = time.time()
            answer = await client.get(f"{url}/api/overview")
            if answer.status_code in {401, 403}:
                return Management(url=shown, missing="this user may not ask it (rabbitmqctl set_user_tags)")
            overview = answer.raise_for_status().json()
            nodes = (await client.get(f"{url}/api/nodes")).raise_for_status().json()
            queues = (await client.get(f"{url}/api/queues/{vhost}")).raise_for_status().json()
            return Management(
                url=shown,
                version=str(overview.get("rabbitmq_version", "")),
                nodes=msgspec.convert(nodes, list[dict[str, Any]]),
                queues=msgspec.convert(queues, list[dict[str, Any]]),
                ahead_ms=_ahead_ms(answer, begun_s),
            )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError) as error:
        nobody = isinstance(error, httpx.ConnectError)
        return Management(url=shown, missing="nothing listens there" if nobody else type(error).__name__)


def _ahead_ms(answer: httpx.Response, begun_s: float) -> float | None:
    """Return how far the server's clock is ahead of ours; its header tells whole seconds, cut off."""
    try:
        theirs_s = parsedate_to_datetime(answer.headers["date"]).timestamp() + 0.5
    except (KeyError, ValueError):
        return None
    return (theirs_s - (begun_s + time.time()) / 2) * 1000
