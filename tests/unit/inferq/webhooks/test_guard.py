"""Which addresses are public, in whatever form they are written, and which hosts an operator may list."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.webhooks.guard import MOST_HOSTS, Hosts, is_public, literal, parse_hosts, plain

LISTED = parse_hosts(
    "a.example:8080, b.example, 10.1.0.0/16, [fd00::1]:443, fd01::/16, 192.168.7.7:80,[fd02::/16]"
)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
        "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
        "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
        "2002:7f00:1::", "2002:808:808::", "3fff::1", "fc00::1", "fd00::1", "fe80::1", "fec0::1", "ff02::1", "5f00::1",
        "::ffff:0:127.0.0.1",
    ],
)  # fmt: skip  # addresses side by side
def test_what_is_not_public_is_refused(text: str) -> None:
    """Private, local, shared, reserved, multicast, and IPv6 forms of these."""
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ],
)  # fmt: skip  # addresses side by side
def test_what_anybody_could_reach_is_public(text: str) -> None:
    """Global unicast, and IPv6 forms that lead to it."""
    assert is_public(ip_address(text))


@given(st.ip_addresses(v=4))
def test_no_form_of_an_address_is_judged_otherwise(address: IPv4Address) -> None:
    """As one number, octal, hexadecimal, shortened or mapped, it is the same address."""
    number = int(address)
    first, second, third, fourth = address.packed
    forms = [
        str(address), str(number), hex(number), f"{first}.{number & 0xFFFFFF}", f"{first}.{second}.{number & 0xFFFF}",
        f"0{first:o}.0{second:o}.0{third:o}.0{fourth:o}", f"{first:#x}.{second}.{third:#x}.{fourth}",
        f"::ffff:{address}", f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}",
    ]  # fmt: skip  # forms side by side
    assert {literal(form) for form in forms} == {address}
    assert is_public(address) == is_public(IPv6Address(f"::ffff:{address}"))


@given(st.from_regex(r"(0x[0-9a-f]{0,9}|[0-9]{1,11})(\.(0x[0-9a-f]{0,3}|[0-9]{1,4})){0,4}", fullmatch=True))
def test_a_number_that_the_system_takes_is_an_address_here_too(text: str) -> None:
    """What looks like an address is one for the system and for us, or is refused; it never passes for a name."""
    try:
        ours = literal(text)
    except ValueError:
        return
    assert ours is not None
    try:
        theirs = socket.inet_aton(text)
    except OSError:
        return
    assert ours.packed == theirs


@pytest.mark.parametrize("text", ["a", "a.example", "1.a", "0x7f.example", "a-1", "_dmarc.x"])
def test_a_name_is_no_address(text: str) -> None:
    """Whatever does not end in a number."""
    assert literal(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "256.1.1.1", "1.2.3.4.5", "1.2.3.256", "4294967296", "1.256.1", "09", "::g", "fe80::1%eth0", "1:2", "8_8.8.8.8",
        "9.-1.0.5", "0x0x7f.1", "0o17.1", "a.1",
    ],
)  # fmt: skip  # texts side by side
def test_what_is_meant_as_an_address_and_is_none_is_refused(text: str) -> None:
    """It is not looked up as a name."""
    with pytest.raises(ValueError, match=r"."):
        literal(text)


def test_an_empty_hexadecimal_number_is_zero() -> None:
    """As the system has it."""
    assert literal("127.0x") == IPv4Address("127.0.0.0")


@pytest.mark.parametrize(
    ("host", "port", "listed"),
    [
        ("a.example", 8080, True), ("a.example", 443, False), ("b.example", 1, True), ("x.b.example", 1, False),
        ("10.1.2.3", 9, True), ("10.2.0.1", 9, False), ("fd00::1", 443, True), ("fd00::1", 80, False),
        ("fd01::5", 80, True), ("192.168.7.7", 80, True), ("192.168.7.7", 81, False), ("fd02::1", 5, True),
        ("8.8.8.8", 80, False), ("c.example", 80, False),
    ],
)  # fmt: skip  # hosts side by side
def test_a_listed_host_is_known(host: str, port: int, listed: bool) -> None:
    """By name, address or network, for one port or any; what is below a name is another name."""
    assert LISTED.lists(literal(host) or host, port) is listed


@pytest.mark.parametrize(
    ("host", "addresses", "allowed"),
    [
        ("c.example", ["8.8.8.8", "2606:4700::1111"], True),
        ("c.example", ["8.8.8.8", "127.0.0.1"], False),
        ("c.example", ["8.8.8.8", "::ffff:127.0.0.1"], False),
        ("c.example", ["10.1.2.3"], True),
        ("c.example", ["::ffff:10.1.2.3"], True),
        ("c.example", ["10.1.2.3", "10.2.2.3"], False),
        ("c.example", [], False),
        ("b.example", ["127.0.0.1"], True),
        ("b.example", [], False),
    ],
)
def test_every_address_of_a_name_has_to_be_allowed(host: str, addresses: list[str], allowed: bool) -> None:
    """Public or in a listed network; a listed name may lead anywhere, but somewhere."""
    assert LISTED.allow(host, 443, [ip_address(one) for one in addresses]) is allowed


@pytest.mark.parametrize("text", ["", "  "])
def test_no_list_is_an_empty_list(text: str) -> None:
    """Nothing is listed."""
    assert parse_hosts(text) == Hosts()


@pytest.mark.parametrize(
    "text",
    [
        ",", "a,", "a:0", "a:65536", "a:x", "a:", "http://a", "a/b", "*.a", "10.0.0.1/8", "10.0.0.0/33", "[a]", "[::1",
        "[::1]x", "[::1]:", "a b", "ä.example", "-a", "a-", "a..b", "x" * 64, "127.1", "0x7f000001", "256.0.0.1", "1:2",
        "fe80::1%1",
    ],
)  # fmt: skip  # texts side by side
def test_what_is_no_host_is_refused(text: str) -> None:
    """The entry is said by its place, and the form."""
    with pytest.raises(
        ValueError, match=r"^host names, addresses or networks with commas.*; entry \d is none"
    ):
        parse_hosts(text)


def test_a_list_is_bounded() -> None:
    """It is looked through for every webhook."""
    assert len(parse_hosts(",".join(["a"] * MOST_HOSTS)).entries) == MOST_HOSTS
    with pytest.raises(ValueError, match=f"^at most {MOST_HOSTS} host names"):
        parse_hosts(",".join(["a"] * (MOST_HOSTS + 1)))


@given(st.ip_addresses())
def test_a_plain_address_stays_so(address: IPv4Address | IPv6Address) -> None:
    """What leads to an address leads no further."""
    assert plain(plain(address)) == plain(address)
