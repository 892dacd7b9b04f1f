"""From which web pages a browser may connect: origins as an operator writes them down, and who is among them. Pure.

Rules:

1. A browser names the page's origin (RFC 6454) with every WebSocket, and no page can forge that. Who names none is no
   browser, and is not asked.
2. A setting holds origins with commas between them, or `*` for any. An origin is a scheme, a host and a port; the port
   that a scheme has anyway may be left out on either side.
3. An empty setting stands for the service's own page: loopback and the host that it listens on, with the ingress port.
4. `null`, which pages without an origin send, is matched by `*` alone: any sandboxed page can have it.
"""

import re
from dataclasses import dataclass
from typing import Final

from inferq.addresses import host_port

ANY: Final = "*"
FORM: Final = "scheme://host[:port] entries with commas between them, or *"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_USUAL: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_ORIGIN: Final = re.compile(
    r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Origins:
    """The allowed ones; None is any."""

    allowed: frozenset[str] | None

    def allow(self, origin: str) -> bool:
        """Say whether a page of this origin may connect."""
        if self.allowed is None:
            return True
        try:
            return _normal(origin) in self.allowed
        except ValueError:
            return False


def parse_origins(setting: str) -> tuple[str, ...]:
    """Read a setting; none for an empty one.

    Raises:
        ValueError: what is allowed, and which entry is something else.
    """
    if not setting or setting == ANY:
        return (setting,) if setting else ()
    origins = []
    for number, entry in enumerate(setting.split(","), start=1):
        try:
            origins.append(_normal(entry.strip()))
        except ValueError as error:
            raise ValueError(f"{FORM}; entry {number} {error}") from None
    return tuple(origins)


def allowed_origins(setting: str, *, host: str, port: int) -> Origins:
    """Return the origins that a setting allows; ``host`` and ``port`` are the ingress's own."""
    origins = parse_origins(setting)
    if origins == (ANY,):
        return Origins(allowed=None)
    if origins:
        return Origins(allowed=frozenset(origins))
    own = {_normal(f"http://{host_port(name, port)}") for name in (*_LOOPBACK, host)}
    if host not in _LOOPBACK:
        own.add(_normal(f"https://{host_port(host, port)}"))
    return Origins(allowed=frozenset(own))


def _normal(origin: str) -> str:
    """Return an origin as it is compared: in lower case, without the port that its scheme has anyway."""
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        raise ValueError(
            "is no origin: write it like https://app.example, without a path or a slash at the end"
        )
    scheme, host, port = found[1].lower(), found[2].lower(), found[3]
    if port is None or int(port) == _USUAL.get(scheme):
        return f"{scheme}://{host}"
    if not 0 < int(port) < 65536:
        raise ValueError("has a wrong port: 1 to 65535 are allowed")
    return f"{scheme}://{host}:{int(port)}"
