"""Serves the web pages: the chat at `/`, operations at `/ops`, and what they load.

All of it is read and compressed once, at the start; the pages are put together anew when the model comes to be known.
The files that a page loads lie below a folder that
is named by their digest, so a browser may keep them for good, and a page never gets those of another version. The pages
themselves are asked for anew each time. They are served without a key, as they hold nothing of anybody's.
"""

import gzip
import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inferq.addresses import host_port
from inferq.catalog import ModelCard
from inferq.keyring import KeyRing

FOLDER: Final = Path(__file__).parent / "web"
PAGES: Final = {"/": "index.html", "/ops": "ops.html"}

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_EVERYWHERE: Final = ("0.0.0.0", "::")
# Where a notifier is whose address names no port.
_PORTS: Final = {"ws": 80, "wss": 443}
# What an address is made of: a `Host` of anything else is not repeated.
_HOST: Final = re.compile(r"([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_NOTHING: Final = re.compile(r"q=0(?:\.0{0,3})?", re.IGNORECASE)
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_ASKED_ANEW: Final = "no-cache"
_KEYED: Final = {"KEYED": "yes", "INPUTS": ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file as it is sent, in both ways; its tag is that of its content, and says in which way it came."""

    kind: str
    plain: bytes
    packed: bytes
    digest: str

    @classmethod
    def of(cls, name: str, content: bytes) -> "File":
        """Make one; it is packed the same in each process and at each start, as its tag promises."""
        return cls(
            kind=_KINDS[Path(name).suffix],
            plain=content,
            packed=gzip.compress(content, compresslevel=9, mtime=0),
            digest=hashlib.sha256(content).hexdigest()[:32],
        )


class Pages:
    """The pages of one deployment.

    ``keys`` says whether a page has to ask for a key, ``stream_url`` is what the notifier's addresses begin with,
    ``broker_ui_url`` where the broker's own page is, if it has one. The chat is told what its ``model`` answers;
    where tensors are meant, also which, but not where that takes a key to see.
    """

    def __init__(
        self, keys: KeyRing, *, stream_url: str, broker_ui_url: str = "", model: ModelCard | None = None
    ) -> None:
        self._keys = keys
        found = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in _KINDS}
        assets = {name: content for name, content in found.items() if not name.endswith(".html")}
        self._assets = {name: File.of(name, content) for name, content in assets.items()}
        self._version = hashlib.sha256(
            b"".join(f"{name}\0{file.digest}\0".encode() for name, file in self._assets.items())
        ).hexdigest()[:16]
        address = urlsplit(stream_url)
        self._scheme, self._port = address.scheme, address.port or _PORTS.get(address.scheme, 0)
        self._notifier = None if address.hostname in _EVERYWHERE else _origin(address)
        # A page finds a notifier that listens everywhere at the host that it came from itself.
        notifier = stream_url if self._notifier else f"{self._scheme}://*:{self._port}"
        self._told = {"WEB": f"web/{self._version}", "NOTIFIER": notifier, "BROKER_UI": broker_ui_url}
        self._templates = {path: found[name] for path, name in PAGES.items()}
        self.know(model)

    def know(self, model: ModelCard | None) -> None:
        """Tell the chat, from now on, what this model answers."""
        told = self._told | _of(model)
        self._pages = {
            (path, keyed): File.of(name, _filled(self._templates[path], told | more))
            for path, name in PAGES.items()
            for keyed, more in ((False, {"KEYED": "no"}), (True, _KEYED))
        }

    def routes(self) -> list[Route]:
        """Return the routes; all of them take GET and HEAD."""
        pages = [Route(path, self.page) for path in PAGES]
        return [*pages, Route("/web/{version}/{name}", self.asset)]

    async def page(self, request: Request) -> Response:
        """Answer with a page."""
        file = self._pages[request.url.path, self._keys.keys > 0]
        return _answer(request, file, _ASKED_ANEW, self._policy(request))

    async def asset(self, request: Request) -> Response:
        """Answer with a file that a page loads; one of another version is not there."""
        file = self._assets.get(request.path_params["name"])
        if file is None or request.path_params["version"] != self._version:
            raise HTTPException(404)
        return _answer(request, file, _FOR_GOOD, self._policy(request))

    def _policy(self, request: Request) -> str:
        """Return what a browser may load and whom a page may call: its own server and the notifier alone."""
        notifier = self._notifier
        if notifier is None:
            host = _HOST.fullmatch(request.headers.get("host", ""))
            name = host[1].strip("[]") if host else "localhost"
            notifier = f"{self._scheme}://{host_port(name, self._port)}"
        return "; ".join(
            (
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                f"connect-src 'self' {notifier}",
                "img-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        )


def takes_gzip(accepted: str) -> bool:
    """Say whether an `Accept-Encoding` takes gzip: by its name, or else by the `*` for all that are not named."""
    taken = {}
    for entry in accepted.lower().split(","):
        coding, _, weight = entry.partition(";")
        taken[coding.strip()] = _NOTHING.fullmatch(weight.strip()) is None
    return taken.get("gzip", taken.get("*", False))


def _origin(address: SplitResult) -> str:
    """Return scheme, host and port as a policy names them: nothing of a host may end a part of it."""
    host = quote(address.hostname or "", safe=":")
    host = f"[{host}]" if ":" in host else host
    return f"{address.scheme}://{host}" + (f":{address.port}" if address.port else "")


def _of(model: ModelCard | None) -> dict[str, str]:
    """Return what the chat is told of its model; nothing where only a batcher can know."""
    if model is None or model.signature is None:
        return {"ANSWERS": (model and model.kind) or "", "INPUTS": ""}
    return {"ANSWERS": "tensors", "INPUTS": "; ".join(port.text for port in model.signature.inputs)}


def _filled(template: bytes, told: Mapping[str, str]) -> bytes:
    """Put what a page is told in its places, each of which is inside an attribute."""
    for name, text in told.items():
        template = template.replace(f"@{name}@".encode(), html.escape(text).encode())
    return template


def _answer(request: Request, file: File, cached: str, policy: str) -> Response:
    packed = takes_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{file.digest}-gzip"' if packed else f'"{file.digest}"'
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": cached,
        "Vary": "Accept-Encoding",
        "ETag": tag,
    }
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.plain, headers=headers, media_type=file.kind)
