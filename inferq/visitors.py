"""Whose requests are taken where no API key says who asks. Pure.

A browser sends what any web page tells it to, to loopback as well, and a job can be posted without a header field that
would make it ask first. With keys that is harmless, as a page has none. Without keys:

1. What changes something is refused when the browser says that a page of another origin asks: by `Sec-Fetch-Site`, or
   where it sends none by `Origin`. A page whose origin is allowed (INFERQ_ORIGINS) may ask, and so may one that came
   from the very host and port that it asks.
2. On loopback, a browser that takes this service for another host is refused whatever it asks: so does one whose page's
   name was made to lead here (DNS rebinding), and it takes that page for one of ours. Addresses are no names: nobody
   can make them lead elsewhere.

Only browsers are judged, as they alone do what a page says. One that asks a host by a name that is not loopback's over
HTTP does not tell of sites, but of languages, and no page can keep it from that.
"""

import ipaddress
import re
from collections.abc import Container, Iterable
from typing import Final

from inferq.addresses import LOOPBACK
from inferq.errors import Forbidden
from inferq.origins import Origins

HARMLESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_KNOWN: Final = frozenset({b"host", b"origin", b"sec-fetch-site", b"accept-language"})
_OWN: Final = frozenset({"same-origin", "none"})
_PORT: Final = re.compile(r":\d*\Z")

_STRANGE_HOST: Final = (
    "this service goes by another name: open it as localhost, or allow this one in INFERQ_ORIGINS"
)
_STRANGE_PAGE: Final = (
    "a page of another origin may not do this: allow it in INFERQ_ORIGINS, or set INFERQ_API_KEYS"
)


class Visitors:
    """Judges requests where there are no keys; ``origins`` are the allowed ones, ``host`` is where the service is."""

    def __init__(self, origins: Origins, *, host: str) -> None:
        self._origins, self._local = origins, host in LOOPBACK

    @property
    def local(self) -> bool:
        """Whether the service listens on loopback alone."""
        return self._local

    def admit(
        self, method: str, headers: Iterable[tuple[bytes, bytes]], *, harmless: Container[str] = HARMLESS
    ) -> None:
        """Let a request pass, or raise `Forbidden`; names of ``headers`` are in lower case.

        A page of another origin may ask with ``harmless`` methods alone.
        """
        host = origin = site = ""
        browser = False
        for name, value in headers:
            if name not in _KNOWN:
                continue
            text = value.decode("latin-1")
            if name == b"host":
                host = text
                continue
            browser = True
            if name == b"origin":
                # Of several none is believed.
                origin = text if not origin else "null"
            elif name == b"sec-fetch-site":
                site = text
        if not browser:
            return
        if self._local and not self._is_ours(host):
            raise Forbidden(_STRANGE_HOST)
        if method not in harmless and not self._own_page(origin, site, host):
            raise Forbidden(_STRANGE_PAGE)

    def _is_ours(self, host: str) -> bool:
        name = _PORT.sub("", host).lower()
        return name in LOOPBACK or _is_address(name) or self._any_scheme(host)

    def _any_scheme(self, host: str) -> bool:
        return any(map(self._origins.allow, (f"http://{host}", f"https://{host}")))

    def _own_page(self, origin: str, site: str, host: str) -> bool:
        if site in _OWN or (origin and self._origins.allow(origin)):
            return True
        if site:
            return False
        return not origin or origin.partition("://")[2].lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
