"""Serves the descriptions: `/openapi.json` and `/asyncapi.json` for programs, `/docs` for people."""

import hashlib
import re
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inferq.keyring import KeyRing
from ingress.description.commands import ADDRESS
from ingress.description.document import document
from ingress.description.page import page
from ingress.description.pushed import ADDRESS as PLACE
from ingress.description.pushed import asyncapi
from ingress.description.style import POLICY

# What an address is made of; a `Host` of anything else is not repeated in a page. No shell takes any of it for more.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_NOWHERE: Final = "localhost:8080"
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}


class Descriptions:
    """Makes documents and page once, and serves them.

    ``keys`` says whether examples need a key, ``stream_url`` is what the notifier's addresses begin with.
    """

    def __init__(self, keys: KeyRing, *, stream_url: str) -> None:
        made = document()
        pushed = asyncapi(version=made["info"]["version"], stream_url=stream_url)
        self._pushed = msgspec.json.encode(pushed)
        self._keys = keys
        self._document = msgspec.json.encode(made)
        self._pages = {keyed: page(made, keyed=keyed) for keyed in (False, True)}

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/openapi.json", self.openapi),
            Route("/asyncapi.json", self.asyncapi),
            Route("/docs", self.docs),
        ]

    async def openapi(self, request: Request) -> Response:
        """Answer with the document."""
        return _answer(request, self._document, "application/json", {})

    async def asyncapi(self, request: Request) -> Response:
        """Answer with the document of what is pushed, which names the address that it was asked for at."""
        return _answer(
            request, self._pushed.replace(PLACE.encode(), _host(request).encode()), "application/json", {}
        )

    async def docs(self, request: Request) -> Response:
        """Answer with the page, its commands with the address that it was asked for at."""
        text = self._pages[self._keys.keys > 0].replace(ADDRESS, f"http://{_host(request)}")
        return _answer(
            request,
            text.encode(),
            "text/html; charset=utf-8",
            {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"},
        )


def _host(request: Request) -> str:
    host = request.headers.get("host", "")
    return host if _HOST.fullmatch(host) else _NOWHERE


def _answer(request: Request, body: bytes, media_type: str, headers: dict[str, str]) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**_SAFE, **headers, "ETag": tag}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)
