"""What may stand as a webhook's URL: each rule, and what it comes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.webhooks.guard import Hosts, literal, parse_hosts
from inferq.webhooks.url import MAX_URL, Target, check, host_of, parse

NONE = Hosts()
LISTED = parse_hosts("127.0.0.1,inside:8080,10.0.0.0/8:80")


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path", "authority"),
    [
        ("https://a.example", "https", "a.example", 443, "/", "a.example"),
        ("HTTPS://A.Example./x?y=%20&z", "https", "a.example", 443, "/x?y=%20&z", "a.example"),
        ("https://a.example:8443?q", "https", "a.example", 8443, "/?q", "a.example:8443"),
        ("https://a.example:443/", "https", "a.example", 443, "/", "a.example"),
        ("https://a/b@c:d", "https", "a", 443, "/b@c:d", "a"),
        ("https://8.8.8.8:1/", "https", "8.8.8.8", 1, "/", "8.8.8.8:1"),
        ("https://134744072/", "https", "8.8.8.8", 443, "/", "8.8.8.8"),
        ("https://[2606:4700::0:1111]:9/", "https", "2606:4700::1111", 9, "/", "[2606:4700::1111]:9"),
        ("https://[::ffff:8.8.8.8]/", "https", "8.8.8.8", 443, "/", "8.8.8.8"),
        (
            "https://xn--bcher-kva.example/",
            "https",
            "xn--bcher-kva.example",
            443,
            "/",
            "xn--bcher-kva.example",
        ),
        ("https://a_b.example/", "https", "a_b.example", 443, "/", "a_b.example"),
    ],
)
def test_a_url_is_taken_apart(
    text: str, scheme: str, host: str, port: int, path: str, authority: str
) -> None:
    """Once, into what is connected to."""
    target = check(text, NONE)
    assert target == Target(scheme=scheme, host=host, address=literal(host), port=port, path=path)
    assert target.authority == authority
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", f"must be a URL of 1 to {MAX_URL} characters"),
        ("https://a/" + "x" * (MAX_URL - 9), f"must be a URL of 1 to {MAX_URL} characters"),
        ("https://a/ b", "visible ASCII"),
        ("https://a\\@b/", "visible ASCII without a backslash"),
        ("https://ä/", "visible ASCII"),
        ("https://a/\n", "visible ASCII"),
        ("https://a/\x00", "visible ASCII"),
        ("a.example", "must be a URL like https://host/path"),
        ("//a.example/", "must be a URL like https"),
        ("ftp://a.example/", "must be a URL like https"),
        ("file:///etc/passwd", "must be a URL like https"),
        ("https:/a", "must be a URL like https"),
        ("https://a/#b", "no fragment"),
        ("https://a#", "no fragment"),
        ("https://user@a/", "no user or password"),
        ("https://u:p@a/", "no user or password"),
        ("https://a@127.0.0.1/", "no user or password"),
        ("https:///x", "must name a host, and a port"),
        ("https://?x", "must name a host, and a port"),
        ("https://:443/", "must name a host, and a port"),
        ("https://a:/", "a port from 1 to 65535"),
        ("https://a:0/", "a port from 1 to 65535"),
        ("https://a:65536/", "a port from 1 to 65535"),
        ("https://a:1:2/", "a port from 1 to 65535"),
        ("https://a%2eb/", "must name a host"),
        ("https://[::1/", "must name a host"),
        ("https://[]/", "must name a host"),
        ("https://[fe80::1%25eth0]/", "must name a host"),
        ("https://[1:2]/", "an address that is one"),
        ("https://256.1.1.1/", "an address that is one"),
        ("https://-a/", "labels of up to 63"),
        ("https://a..b/", "labels of up to 63"),
        ("https://./", "labels of up to 63"),
        (f"https://{'a' * 64}/", "labels of up to 63"),
        ("http://a.example/", "must begin with https://"),
        ("http://8.8.8.8/", "must begin with https://"),
        ("https://127.0.0.1/", "not public"),
        ("https://2130706433/", "not public"),
        ("https://0177.0.0.1/", "not public"),
        ("https://0x7f.1/", "not public"),
        ("https://127.1/", "not public"),
        ("https://[::1]/", "not public"),
        ("https://[::ffff:7f00:1]/", "not public"),
        ("https://169.254.169.254/latest/meta-data", "not public"),
    ],
)  # fmt: skip  # a table
def test_what_is_not_allowed_is_said(text: str, complaint: str) -> None:
    """Each fault by the rule that it breaks."""
    with pytest.raises(ValueError, match=rf"^must .*{complaint}|^{complaint}"):
        check(text, NONE)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("http://127.0.0.1:5/x", True), ("https://127.0.0.1/", True), ("http://2130706433/", True),
        ("http://inside:8080/", True), ("http://inside/", False), ("https://inside/", True), ("http://10.9.8.7/", True),
        ("https://10.9.8.7/", False), ("http://127.0.0.2/", False),
    ],
)  # fmt: skip  # texts side by side
def test_a_listed_host_is_taken_over_http_and_need_not_be_public(text: str, taken: bool) -> None:
    """For its port, if the list says one."""
    if taken:
        assert check(text, LISTED) == parse(text)
    else:
        with pytest.raises(ValueError, match="INFERQ_WEBHOOK_HOSTS"):
            check(text, LISTED)


def test_what_is_no_url_has_no_host() -> None:
    """It is not worth an error where only the host is to be shown."""
    assert host_of("nothing") == ""


@given(st.text(max_size=60).map("https://".__add__) | st.text(max_size=60))
def test_no_text_gets_past_the_rules(text: str) -> None:
    """What is taken is https to a name, or to a public address, and what is sent has nothing in it that ends a line."""
    try:
        target = check(text, NONE)
    except ValueError:
        return
    assert target.scheme == "https"
    assert target.path.startswith("/")
    assert all("!" <= char <= "~" for char in target.host + target.path + target.authority)
    assert "@" not in target.authority
