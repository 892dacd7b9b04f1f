"""The pages as a real server sends them."""

import secrets

import httpx
import pytest

from tests.deployment import Deployment
from tests.serving import serving


async def test_the_page_is_there(client: httpx.AsyncClient) -> None:
    """GET brings the page, compressed; HEAD the same head without it; nothing else is taken."""
    page = await client.get("/")
    assert page.status_code == 200
    assert page.text.startswith("<!doctype html>")
    assert page.headers["content-encoding"] == "gzip"
    head = await client.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers} == {**page.headers}
    refused = await client.post("/", content=b"{}")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_page_calls_where_the_notifier_is(streams: Deployment) -> None:
    """It is told of the notifier by the setting that clients are told by, and may call it."""
    async with serving(streams, INFERQ_PUBLIC_NOTIFIER_URL="wss://push.example") as client:
        page = await client.get("/")
        assert 'content="wss://push.example"' in page.text
        assert "connect-src 'self' wss://push.example;" in page.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/web/0/chat.js", "/web/x"])
async def test_no_key_is_asked_for(streams: Deployment, path: str) -> None:
    """The page itself comes without one; and what there is not is 404, and no secret."""
    async with serving(streams, INFERQ_API_KEYS=f"me:{secrets.token_hex(16)}") as client:
        answer = await client.get(path)
        assert answer.status_code == (200 if path == "/" else 404)
