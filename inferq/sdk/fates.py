"""What the end of a WebSocket means for those who wait on it, by its close code. Pure."""

from collections.abc import Collection
from enum import Enum
from typing import Final
from urllib.parse import urlsplit


class Fate(Enum):
    """What is to be done next."""

    AGAIN = "again"
    """Connect again soon: a restart, a slow moment, a network that failed."""
    LATER = "later"
    """Poll, and try again after a while: too many connections, or a notifier that does not know this protocol."""
    KEY_REFUSED = "key refused"
    """The API key is not one: no use in going on."""


TOO_MANY: Final = 4429
_FATES: Final[dict[int | None, Fate]] = {
    4400: Fate.LATER,
    4401: Fate.KEY_REFUSED,
    4403: Fate.LATER,
    4404: Fate.LATER,
    TOO_MANY: Fate.LATER,
}


def fate_of(close_code: int | None) -> Fate:
    """Return what a close code means; None, or one that is not known, is a network that failed."""
    return _FATES.get(close_code, Fate.AGAIN)


def socket_url(stream_url: str) -> str | None:
    """Return the URL of the WebSocket for many jobs, from that of one job; None when it is not of that form."""
    base, found, _ = stream_url.rpartition("/ws/jobs/")
    return f"{base}/ws" if found and host_of(base, {"ws", "wss"}) else None


def host_of(url: str, schemes: Collection[str]) -> str | None:
    """Return the host of a URL with one of these schemes; None when it is none that can be connected to."""
    try:
        parts = urlsplit(url)
        # What is wrong with a port shows when it is asked for.
        return parts.hostname if parts.scheme in schemes and parts.port != 0 else None
    except ValueError:
        return None


def may_carry(key: str | None, *, api_secure: bool, url: str) -> bool:
    """Say whether a key may go to this WebSocket: never in the clear where the API itself is encrypted."""
    return key is None or not api_secure or url.startswith("wss://")
