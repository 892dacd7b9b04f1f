"""What may stand as a webhook's URL, and what it comes to. Pure.

Rules:

1. It is taken apart here, once, and what it came to is what is connected to: two parsers that read one text differently
   are how a check is got round. So what is unusual is refused and not repaired: only visible ASCII, no backslash.
2. `https`; plain `http` only to a host that the operator lists.
3. No user and password in it, which would be kept with the job, and no fragment, which no server gets to see.
4. A host that is an address, in whatever form, must be public or listed. A name is looked up when it is needed.
"""

import re
from dataclasses import dataclass
from typing import Final

from inferq.webhooks.guard import NAME, Address, Hosts, is_public, literal

MAX_URL: Final = 2000

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_PLACE: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)
_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a webhook goes: ``host`` in lower case, ``address`` where it is one, ``path`` with the query."""

    scheme: str
    host: str
    address: Address | None
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What stands in the `Host` field."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse(text: str) -> Target:
    """Take a URL apart; raises ValueError with what it must be."""
    if not 0 < len(text) <= MAX_URL:
        raise ValueError(f"must be a URL of 1 to {MAX_URL} characters")
    if not all("!" <= char <= "~" and char != "\\" for char in text):
        raise ValueError("must be visible ASCII without a backslash: percent-encode anything else")
    found = _URL.fullmatch(text)
    scheme = found["scheme"].lower() if found else ""
    if found is None or scheme not in _PORTS:
        raise ValueError("must be a URL like https://host/path")
    if "#" in text:
        raise ValueError("must have no fragment (#)")
    if "@" in found["place"]:
        raise ValueError("must hold no user or password")
    place = _PLACE.fullmatch(found["place"])
    if place is None or (place["port"] and not 0 < int(place["port"]) < 65536):
        raise ValueError("must name a host, and a port from 1 to 65535 if any")
    host = (place["v6"] or place["host"]).lower().removesuffix(".")
    try:
        address = literal(host)
    except ValueError:
        raise ValueError("must name a host, or an address that is one") from None
    if address is None and not NAME.fullmatch(host):
        raise ValueError("must name a host: labels of up to 63 letters, digits, - and _")
    return Target(
        scheme=scheme,
        host=host if address is None else str(address),
        address=address,
        port=int(place["port"] or _PORTS[scheme]),
        path=found["rest"] if found["rest"].startswith("/") else "/" + found["rest"],
    )


def check(text: str, hosts: Hosts) -> Target:
    """Take a URL apart, if a job may name it; raises ValueError with what it must be."""
    target = parse(text)
    if hosts.lists(target.address or target.host, target.port):
        return target
    if target.scheme != "https":
        raise ValueError("must begin with https:// (http:// is for hosts in INFERQ_WEBHOOK_HOSTS)")
    if target.address is not None and not is_public(target.address):
        raise ValueError(
            "must not lead to an address that is not public (but for hosts in INFERQ_WEBHOOK_HOSTS)"
        )
    return target


def host_of(text: str) -> str:
    """Return the host of a URL, which is all of it that may be shown; "" for what is none."""
    try:
        return parse(text).host
    except ValueError:
        return ""
