"""Hosts: which are this machine's own, and how one is written with a port (RFC 3986, 3.2.2). Pure."""

from typing import Final

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def host_port(host: str, port: int) -> str:
    """Return ``host:port`` as URLs and the Host header write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
