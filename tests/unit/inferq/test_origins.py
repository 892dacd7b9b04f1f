"""From which pages a browser may connect."""

import pytest

from inferq.origins import ANY, allowed_origins, parse_origins


@pytest.mark.parametrize(
    ("setting", "origins"),
    [
        ("", ()),
        ("*", (ANY,)),
        ("https://app.example", ("https://app.example",)),
        ("HTTPS://App.Example:443, http://h:080", ("https://app.example", "http://h")),
        ("http://[::1]:3000,moz-extension://0a-1b", ("http://[::1]:3000", "moz-extension://0a-1b")),
    ],
)
def test_a_setting_is_read(setting: str, origins: tuple[str, ...]) -> None:
    """In lower case, without the port that a scheme has anyway."""
    assert parse_origins(setting) == origins


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("app.example", "entry 1 is no origin"),
        ("https://a.example,https://b.example/", "entry 2 is no origin"),
        ("https://a.example,", "entry 2 is no origin"),
        ("*,https://a.example", "entry 1 is no origin"),
        ("null", "entry 1 is no origin"),
        ("https://u:p@h", "entry 1 is no origin"),
        ("https://a.example\n", ""),
        ("https://h:0", "entry 1 has a wrong port"),
        ("https://h:65536", "entry 1 has a wrong port"),
    ],
)
def test_a_wrong_setting_says_what_is_allowed(setting: str, said: str) -> None:
    """And which entry is something else."""
    if not said:
        assert parse_origins(setting) == ("https://a.example",)
        return
    with pytest.raises(ValueError, match="scheme://host"):
        parse_origins(setting)
    with pytest.raises(ValueError, match=said):
        parse_origins(setting)


@pytest.mark.parametrize(
    ("setting", "origin", "allowed"),
    [
        ("https://app.example", "https://app.example", True),
        ("https://app.example", "https://app.example:443", True),
        ("https://app.example", "https://APP.example", True),
        ("https://app.example", "http://app.example", False),
        ("https://app.example", "https://app.example:8443", False),
        ("https://app.example", "https://app.example.evil.example", False),
        ("https://app.example", "https://evil.example/https://app.example", False),
        ("https://app.example", "null", False),
        ("https://app.example", "", False),
        ("https://app.example", "https://app.example:99999", False),
        ("*", "null", True),
        ("*", "https://anybody.example", True),
    ],
)
def test_an_origin_is_matched_as_a_whole(setting: str, origin: str, allowed: bool) -> None:
    """Scheme, host and port."""
    assert allowed_origins(setting, host="127.0.0.1", port=8080).allow(origin) is allowed


@pytest.mark.parametrize(
    ("host", "port", "origin", "allowed"),
    [
        ("127.0.0.1", 8080, "http://127.0.0.1:8080", True),
        ("127.0.0.1", 8080, "http://localhost:8080", True),
        ("127.0.0.1", 8080, "http://[::1]:8080", True),
        ("127.0.0.1", 8080, "http://127.0.0.1:8081", False),
        ("127.0.0.1", 8080, "https://127.0.0.1:8080", False),
        ("127.0.0.1", 80, "http://localhost", True),
        ("inferq.example", 8080, "http://inferq.example:8080", True),
        ("inferq.example", 443, "https://inferq.example", True),
        ("inferq.example", 8080, "https://evil.example:8080", False),
        ("::", 8080, "http://[::]:8080", True),
    ],
)
def test_without_a_setting_it_is_the_services_own_page(
    host: str, port: int, origin: str, allowed: bool
) -> None:
    """On loopback, and on the host that it listens on, there also behind TLS."""
    assert allowed_origins("", host=host, port=port).allow(origin) is allowed
