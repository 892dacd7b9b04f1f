"""Host and port in one text."""

import pytest

from inferq.addresses import host_port


@pytest.mark.parametrize(
    ("host", "written"),
    [("127.0.0.1", "127.0.0.1:80"), ("a.example", "a.example:80"), ("::1", "[::1]:80")],
)
def test_only_an_ipv6_address_is_bracketed(host: str, written: str) -> None:
    """The port can be told from the address."""
    assert host_port(host, 80) == written
