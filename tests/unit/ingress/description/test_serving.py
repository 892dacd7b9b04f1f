"""The description is served once per version, with the address that it was asked for at."""

import base64
import hashlib
import re
import secrets
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette

from inferq.keyring import KeyRing
from ingress.description.document import document
from ingress.description.serving import Descriptions

STREAMS = "wss://push.example:443/inferq"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of the routes, without keys."""
    async with calling(KeyRing("")) as it:
        yield it


def calling(keys: KeyRing) -> httpx.AsyncClient:
    """Return a client of the routes."""
    app = Starlette(routes=list(Descriptions(keys, stream_url=STREAMS).routes()))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://inferq.example:8080")


async def test_the_document_is_served(client: httpx.AsyncClient) -> None:
    """It is the document, as JSON."""
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == document()


@pytest.mark.parametrize("path", ["/openapi.json", "/asyncapi.json", "/docs"])
async def test_who_has_it_gets_it_no_more(client: httpx.AsyncClient, path: str) -> None:
    """An answer may be kept; asked again with its tag it is 304 without a body, with another it comes as a whole."""
    first = await client.get(path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = await client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "no-cache"
    for unknown in ('"x"', tag.strip('"'), ""):
        assert (await client.get(path, headers={"If-None-Match": unknown})).status_code == 200


async def test_what_is_pushed_is_served(client: httpx.AsyncClient) -> None:
    """It names the notifier as clients reach it, and this service by the address that it was asked for at."""
    answer = await client.get("/asyncapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    servers = answer.json()["servers"]
    assert {name: servers["notifier"][name] for name in ("host", "pathname", "protocol")} == {
        "host": "push.example:443", "pathname": "/inferq", "protocol": "wss",
    }  # fmt: skip  # one address
    assert servers["ingress"]["host"] == "inferq.example:8080"
    assert "address.invalid" not in answer.text
    wrong = await client.get("/asyncapi.json", headers={"Host": '"}, "x": {"'})
    assert wrong.json()["servers"]["ingress"]["host"] == "localhost:8080"


async def test_a_browser_loads_nothing_but_the_page(client: httpx.AsyncClient) -> None:
    """The policy forbids all but the page's own style, whose hash it names."""
    answer = await client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")


@pytest.mark.parametrize("host", ["inferq.example", "inferq.example:8080", "[::1]:8080", "127.0.0.1:80"])
async def test_commands_go_where_the_page_came_from(client: httpx.AsyncClient, host: str) -> None:
    """The address is the one of the request."""
    text = (await client.get("/docs", headers={"Host": host})).text
    assert f"http://{host}/v1/stats" in text
    assert "address.invalid" not in text


@pytest.mark.parametrize(
    "host",
    ["<script>", "a'b", "x;rm -rf /", "$(id)", "a b", "", "ex\u00e4mple", "a" * 300, "a:123456", "user@host"],
)
async def test_an_address_that_is_none_is_not_repeated(client: httpx.AsyncClient, host: str) -> None:
    """Neither markup nor a command gets onto the page by the Host field."""
    text = (await client.get("/docs", headers={b"Host": host.encode("latin-1")})).text
    assert "http://localhost:8080/v1/stats" in text
    assert not host or host not in text.partition("</style>")[2] or host == "a b"


async def test_commands_name_a_key_where_there_are_keys() -> None:
    """The page says how to give a key as soon as one is asked for."""
    async with calling(KeyRing(f"me:{secrets.token_hex(16)}")) as client:
        assert "Bearer $INFERQ_API_KEY" in (await client.get("/docs")).text
    async with calling(KeyRing("")) as client:
        assert "INFERQ_API_KEY" not in (await client.get("/docs")).text
