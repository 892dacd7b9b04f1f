"""Which addresses a webhook may go to, and which hosts an operator lists besides. Pure.

Rules:

1. Whoever may submit a job makes this service send a request wherever the URL leads. So an address must be public: one
   that anybody could reach from anywhere. What is private, local, shared, reserved or multicast is refused, and so is
   an IPv6 form that holds such an IPv4 address. The tables are spelled out: those of `ipaddress` differ by version.
2. A listed host is the operator's own word: it is taken over plain `http` as well, whatever addresses its name has.
3. An entry of the list is a name, an address or a network, with a port behind it if it is for that port alone. A name
   means itself and nothing below it. An address or network also covers names that lead there, but these need `https`.
4. Of several addresses of a name every one has to be allowed: which one is taken must not be the name server's choice.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MOST_HOSTS: Final = 1000
FORM: Final = (
    "host names, addresses or networks with commas between them, each with :port if for that port alone"
)

NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)

_REFUSED_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip  # IANA's special-purpose registry, as it stands there
_UNICAST_V6: Final = IPv6Network("2000::/3")
# Protocol assignments (Teredo among them), documentation, 6to4, whose packets go to whatever relay there is.
_REFUSED_V6: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
# An IPv4 address in its last four bytes is where such an address leads.
_MAPPED: Final = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))

# Python's own reading of numbers takes signs and underscores, too.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """One entry of the list; ``port`` is 0 for any."""

    host: str | Network
    port: int

    def covers(self, host: str | Address, port: int) -> bool:
        if self.port not in {0, port}:
            return False
        if isinstance(host, str) or isinstance(self.host, str):
            return self.host == host
        return host in self.host


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """The hosts that an operator lists."""

    entries: tuple[_Entry, ...] = ()

    def lists(self, host: str | Address, port: int) -> bool:
        """Say whether a URL's host is on the list: by name, or as an address."""
        return any(entry.covers(host, port) for entry in self.entries)

    def allow(self, host: str | Address, port: int, addresses: Iterable[Address]) -> bool:
        """Say whether a host with these addresses may be connected to: each is public, or listed."""
        found = list(map(plain, addresses))
        if not found:
            return False
        return self.lists(host, port) or all(is_public(one) or self.lists(one, port) for one in found)


def parse_hosts(text: str) -> Hosts:
    """Read the list; raises ValueError with what is allowed, and the entry that is something else."""
    if not text.strip():
        return Hosts()
    texts = text.split(",")
    if len(texts) > MOST_HOSTS:
        raise ValueError(f"at most {MOST_HOSTS} {FORM}")
    entries = []
    for number, one in enumerate(texts, start=1):
        entry = _entry(one.strip().lower())
        if entry is None:
            raise ValueError(f"{FORM}; entry {number} is none of these")
        entries.append(entry)
    return Hosts(entries=tuple(entries))


def is_public(address: Address) -> bool:
    """Say whether an address is one that anybody could reach from anywhere."""
    address = plain(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _REFUSED_V6)


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 form leads to; any other address as it is."""
    if isinstance(address, IPv6Address) and any(address in network for network in _MAPPED):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def literal(host: str) -> Address | None:
    """Read a host that is an address in any form that a resolver takes; None for a name.

    Besides the usual forms these are IPv4 addresses as one to four numbers, each decimal, octal or hexadecimal.

    Raises:
        ValueError: it is meant as an address, and is none.
    """
    if "%" in host:
        raise ValueError("an address with a scope is none that others could reach")
    try:
        return plain(ip_address(host))
    except ValueError:
        if ":" in host:
            raise
    parts = host.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > 4 or not all(map(_NUMBER.fullmatch, parts)):
        raise ValueError("not an address")
    *first, last = map(_number, parts)
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        raise ValueError("not an address")
    return IPv4Address(sum(part << 8 * (3 - place) for place, part in enumerate(first)) + last)


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)


def _entry(text: str) -> _Entry | None:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or ":" not in host or (rest and colon != ":"):
            return None
    elif text.count(":") > 1:
        host, colon, port = text, "", ""
    else:
        host, colon, port = text.partition(":")
    if colon and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        return None
    number = int(port) if colon else 0
    if "%" in host:
        return None
    try:
        return _Entry(host=ip_network(host), port=number)
    except ValueError:
        pass
    try:
        address = literal(host)
    except ValueError:
        return None
    # Written as a resolver takes it, but not as people do: which one is meant had better be said plainly.
    return _Entry(host=host, port=number) if address is None and NAME.fullmatch(host) else None
