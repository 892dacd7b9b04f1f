"""Whose requests are taken where no key says who asks."""

import pytest

from inferq.errors import Forbidden
from inferq.origins import allowed_origins
from inferq.visitors import Visitors

OWN = "localhost:8080"


def admits(method: str = "POST", *, setting: str = "", listens: str = "127.0.0.1", **fields: str) -> bool:
    """Say whether a request with these header fields is let in; `_` stands for `-`."""
    visitors = Visitors(allowed_origins(setting, host=listens, port=8080), host=listens)
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    try:
        visitors.admit(method, headers)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        OWN,
        "localhost",
        "LOCALHOST:8080",
        "127.0.0.1:8080",
        "[::1]:8080",
        "localhost:9999",
        "192.168.1.7:80",
        "127.0.0.2",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_programs_and_the_own_page_are_let_in(method: str, host: str) -> None:
    """By any address and any port, as through a tunnel: a program sends nothing but `Host`."""
    assert admits(method, host=host)
    assert admits(method, host=host, sec_fetch_site="same-origin", origin=f"http://{host}")
    assert admits(method, host=host, origin=f"http://{host}")
    assert admits(method, host=host, sec_fetch_site="none")


def test_programs_are_not_judged() -> None:
    """They do not do what a page says, whatever they call the service; a browser always names a host."""
    assert admits("POST")
    assert admits("POST", host="api.example", user_agent="curl/8")
    assert not admits("POST", accept_language="en")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "fields",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "http://localhost:3000"},
        {"sec_fetch_site": "cross-site", "origin": "https://evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1:8081"},
    ],
)
def test_a_page_of_another_origin_changes_nothing(method: str, fields: dict[str, str]) -> None:
    """Whether its browser tells of sites or of origins alone; looking is harmless, as it cannot read the answer."""
    assert not admits(method, host=OWN, **fields)
    assert admits("GET", host=OWN, **fields)


def test_of_two_origins_none_is_believed() -> None:
    """No browser sends two."""
    visitors = Visitors(allowed_origins("", host="127.0.0.1", port=8080), host="127.0.0.1")
    origin = (b"origin", b"http://localhost:8080")
    with pytest.raises(Forbidden):
        visitors.admit("POST", [(b"host", OWN.encode()), origin, origin])


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example:8080", "127.0.0.1.nip.io"]
)
def test_on_loopback_another_name_is_refused(method: str, host: str) -> None:
    """A page whose name was made to lead here is, to its browser, a page of ours."""
    # Of sites a browser tells loopback and TLS alone.
    for sign in ({"accept_language": "en"}, {"origin": f"http://{host}"}, {"sec_fetch_site": "same-origin"}):
        assert not admits(method, host=host, **sign)
        assert admits(method, host=host, listens="0.0.0.0", **sign)


@pytest.mark.parametrize(
    ("setting", "host", "origin"),
    [
        ("https://app.example", OWN, "https://app.example"),
        ("https://app.example", "app.example", "https://app.example"),
        ("http://box:8080", "box:8080", "http://box:8080"),
        ("*", "anything.example", "https://anyone.example"),
    ],
)
def test_allowed_pages_and_names_are_let_in(setting: str, host: str, origin: str) -> None:
    """An allowed origin is a page that may ask, and a name that the service goes by."""
    assert admits("POST", setting=setting, host=host, origin=origin, sec_fetch_site="cross-site")


def test_an_open_service_is_kept_from_other_pages_too() -> None:
    """Beyond loopback nobody knows its names, but its own page is that of the host that is asked."""
    assert admits("POST", listens="0.0.0.0", host="box:8080", origin="http://box:8080")
    assert not admits("POST", listens="0.0.0.0", host="box:8080", origin="https://evil.example")


def test_other_header_fields_say_nothing() -> None:
    """Whatever a page's request carries besides."""
    assert admits(host=OWN, user_agent="curl/8", accept="*/*")
    assert not admits(host=OWN, accept="*/*", origin="https://evil.example")


@pytest.mark.parametrize(("listens", "local"), [("localhost", True), ("::1", True), ("0.0.0.0", False)])
def test_it_says_whether_the_service_is_on_loopback_alone(listens: str, local: bool) -> None:
    """Dead letters are open without keys there alone."""
    assert Visitors(allowed_origins("", host=listens, port=8080), host=listens).local is local


def test_a_page_may_be_refused_looks_too() -> None:
    """Where a look is work, as at dead letters, no method is harmless."""
    visitors = Visitors(allowed_origins("", host="127.0.0.1", port=8080), host="127.0.0.1")
    headers = [(b"host", OWN.encode()), (b"sec-fetch-site", b"cross-site")]
    visitors.admit("GET", headers)
    with pytest.raises(Forbidden):
        visitors.admit("GET", headers, harmless=())
