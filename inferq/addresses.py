"""How a host and a port are written together: an IPv6 address stands in brackets (RFC 3986, 3.2.2)."""


def host_port(host: str, port: int) -> str:
    """Return ``host:port`` as URLs and the Host header write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
