"""The pages are served as browsers need them, to anybody, and let them load nothing from elsewhere."""

import gzip
import re
import secrets
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from inferq.catalog import ModelCard, Task
from inferq.head import Kind
from inferq.keyring import KeyRing
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature
from ingress.pages import FOLDER, Pages, takes_gzip

STREAMS = "ws://127.0.0.1:8081"
MOST_BYTES = 150_000


def calling(
    *, keys: str = "", stream_url: str = STREAMS, model: ModelCard | None = None
) -> httpx.AsyncClient:
    """Return a client of the routes that takes nothing compressed unless it says so."""
    app = Starlette(routes=list(Pages(KeyRing(keys), stream_url=stream_url, model=model).routes()))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://inferq.example:8080",
        headers={"Accept-Encoding": "identity"},
    )


async def assets(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the paths of all that there is below a page, by the file's name."""
    folder = re.search(r'href="(web/[0-9a-f]+)/', (await client.get("/")).text)
    assert folder is not None
    return {
        path.name: f"/{folder[1]}/{path.name}"
        for path in sorted(FOLDER.iterdir())
        if path.suffix in {".css", ".js", ".svg"}
    }


async def test_a_page_is_asked_for_anew_and_its_files_are_not() -> None:
    """The page is no older than the service, and a file's address changes with what is in it."""
    async with calling() as client:
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-cache"
        found = await assets(client)
        assert len(found) > 5
        for name, path in found.items():
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.content == (FOLDER / name).read_bytes()
        assert (await client.get(found["chat.js"])).headers[
            "content-type"
        ] == "text/javascript; charset=utf-8"


async def test_who_has_it_gets_it_no_more() -> None:
    """Asked again with its tag a page is 304 without a body; the compressed one has a tag of its own."""
    async with calling() as client:
        plain = await client.get("/")
        packed = await client.get("/", headers={"Accept-Encoding": "gzip"})
        assert plain.headers["etag"] != packed.headers["etag"]
        for tag in (
            plain.headers["etag"],
            f"W/{plain.headers['etag']}",
            f'"x", {plain.headers["etag"]}',
            "*",
        ):
            again = await client.get("/", headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b""), tag
            assert again.headers["etag"] == plain.headers["etag"]
        other = await client.get("/", headers={"If-None-Match": packed.headers["etag"]})
        assert other.status_code == 200


async def test_it_is_compressed_for_those_that_take_it() -> None:
    """Both ways bring the same bytes, and caches are told that there are two."""
    async with calling() as client:
        for path in ("/", *(await assets(client)).values()):
            plain = await client.get(path)
            async with client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as packed:
                assert packed.headers["content-encoding"] == "gzip"
                raw = b"".join([part async for part in packed.aiter_raw()])
            assert gzip.decompress(raw) == plain.content
            assert "content-encoding" not in plain.headers
            assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("br, gzip;q=0.8", True),
        ("*", True),
        ("GZIP", True),
        ("gzip;q=0, *", False),
        ("*;q=0, gzip", True),
        ("*;q=0", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("br", False),
        ("", False),
        ("xgzip", False),
    ],
)
def test_what_takes_gzip(accepted: str, takes: bool) -> None:
    """A weight of nothing is a refusal (RFC 9110, 12.5.3)."""
    assert takes_gzip(accepted) is takes


async def test_nothing_is_loaded_from_elsewhere() -> None:
    """The policy names the service and the notifier alone, and it is on all that is served."""
    async with calling(stream_url="wss://push.example:443/inferq") as client:
        for path in ("/", *(await assets(client)).values()):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"].split("; ")
            assert policy[0] == "default-src 'none'"
            assert {
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self' wss://push.example:443",
                "img-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            } < set(policy)
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
        assert 'content="wss://push.example:443/inferq"' in (await client.get("/")).text


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("box.example:8080", "box.example"),
        ("[fd00::1]:80", "[fd00::1]"),
        ("x;script-src *", "localhost"),
        ("", "localhost"),
    ],
)
async def test_a_notifier_that_listens_everywhere_is_where_the_page_is(host: str, named: str) -> None:
    """No browser can connect to 0.0.0.0; and no Host field adds anything to the policy."""
    async with calling(stream_url="ws://0.0.0.0:8081") as client:
        page = await client.get("/", headers={"Host": host})
        assert f"connect-src 'self' ws://{named}:8081; " in page.headers["content-security-policy"]
        assert 'content="ws://*:8081"' in page.text


@pytest.mark.parametrize(("scheme", "port"), [("ws", 80), ("wss", 443)])
async def test_a_notifier_whose_address_names_no_port_is_at_its_schemes(scheme: str, port: int) -> None:
    """The page is told of an address that a browser can call."""
    async with calling(stream_url=f"{scheme}://0.0.0.0") as client:
        page = await client.get("/")
        assert f'content="{scheme}://*:{port}"' in page.text
        assert f" {scheme}://inferq.example:{port}; " in page.headers["content-security-policy"]


async def test_an_address_does_not_end_an_attribute_or_a_policy() -> None:
    """What an operator sets as the notifier's address stays one."""
    async with calling(stream_url='ws://a;b"><script>x:1/') as client:
        page = await client.get("/")
        assert "<script>x" not in page.text
        assert "connect-src 'self' ws://a%3Bb" in page.headers["content-security-policy"]


async def test_a_page_needs_no_key_and_says_whether_calls_do() -> None:
    """It holds nothing of anybody's, and has to ask before it can call."""
    async with calling(keys=f"me:{secrets.token_hex(16)}") as client:
        assert 'name="inferq-keyed" content="yes"' in (await client.get("/")).text
    async with calling() as client:
        assert 'name="inferq-keyed" content="no"' in (await client.get("/")).text


async def test_what_is_not_there_is_not_found() -> None:
    """Neither a file of another version nor one outside the folder is served."""
    async with calling() as client:
        path = (await assets(client))["chat.js"]
        version = path.split("/")[2]
        for wrong in (
            "/web/0123456789abcdef/chat.js",
            f"/web/{version}/index.html",
            f"/web/{version}/..%2fpages.py",
            f"/web/{version}/",
            "/index.html",
        ):
            assert (await client.get(wrong)).status_code == 404, wrong


@pytest.mark.parametrize("kind", [*Kind, None])
async def test_the_chat_is_told_what_a_text_is_answered_with(kind: Kind | None) -> None:
    """Each kind by its name; nothing where only a batcher can know."""
    card = ModelCard(name="m", spec="m", task=Task.TEXT, kind=kind)
    async with calling(model=card) as client:
        page = (await client.get("/")).text
    assert f'<meta name="inferq-answers" content="{kind or ""}">' in page
    assert '<meta name="inferq-inputs" content="">' in page


async def test_the_chat_is_told_what_comes_to_be_known() -> None:
    """A page that is loaded later is another one, by its tag too; what it loads stays the same."""
    card = ModelCard(name="m", spec="hub:o/m", task=Task.TEXT, pairs=None)
    pages = Pages(KeyRing(""), stream_url=STREAMS, model=card)
    transport = httpx.ASGITransport(app=Starlette(routes=list(pages.routes())))
    async with httpx.AsyncClient(transport=transport, base_url="http://inferq.example:8080") as client:
        before, loaded = await client.get("/"), await assets(client)
        pages.know(replace(card, task=Task.EMBEDDING, kind=Kind.EMBEDDING))
        after = await client.get("/", headers={"If-None-Match": before.headers["etag"]})
        assert after.status_code == 200
        assert '<meta name="inferq-answers" content="embedding">' in after.text
        assert await assets(client) == loaded


async def test_the_chat_is_told_of_tensors_and_by_name_where_no_key_is_needed() -> None:
    """A model that takes no text says so to everybody, and what it takes to those who could see it anyway."""
    ports = (
        Port(name='a"<b>', datatype=Datatype.FP32, shape=(None, 4)),
        Port(name="c", datatype=Datatype.INT64, shape=None),
    )
    signature = Signature(inputs=ports, outputs=(), shared=True)
    card = ModelCard(name="m", spec="m", task=Task.TENSOR, signature=signature)
    async with calling(model=card) as client:
        page = (await client.get("/")).text
    assert '<meta name="inferq-answers" content="tensors">' in page
    assert 'content="a&quot;&lt;b&gt; FP32 [-1, 4]; c INT64 of any shape"' in page
    async with calling(model=card, keys=f"me:{secrets.token_hex(16)}") as client:
        page = (await client.get("/")).text
    assert '<meta name="inferq-answers" content="tensors">' in page
    assert '<meta name="inferq-inputs" content="">' in page


def test_the_files_name_no_other_host() -> None:
    """They work where there is no network; the name of SVG's namespace is no address."""
    for path in sorted(FOLDER.iterdir()):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert (
            re.findall(r"(?:https?:)?//[a-z0-9][a-z0-9.-]*\.[a-z]+", _without_comments(path, text)) == []
        ), path


def test_all_of_it_is_small() -> None:
    """All files of all pages together, compressed, are under 150 kB."""
    assert sum(len(gzip.compress(path.read_bytes())) for path in FOLDER.iterdir()) < MOST_BYTES


def test_nothing_is_inserted_as_markup() -> None:
    """No module has a way for a text to become an element or a program."""
    for path in FOLDER.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", text
        )
        assert found == [], path
    for path in FOLDER.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)", text) == [], path


def _without_comments(path: Path, text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE) if path.suffix == ".js" else text
