"""Whether a caller takes an answer from a cache: the `Cache-Control` header field. Pure."""

import re
from typing import Final

# What a directive's value may hold is no directive. An open quote reaches to the end: each byte is looked at once.
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_FRESH: Final = frozenset({b"no-cache", b"no-store"})


def wants_cached(cache_control: bytes) -> bool:
    """Say whether a cached answer will do: it will unless this `Cache-Control` says no-cache or no-store."""
    directives = _QUOTED.sub(b"", cache_control).lower().split(b",")
    return _FRESH.isdisjoint(directive.partition(b"=")[0].strip() for directive in directives)
