"""What may be shown of a secret setting, be its text allowed or not. Pure."""

import re


def redact(url: str) -> str:
    """Hide the user, password and query of a URL, and whatever cannot be read as one.

    Made for URLs that are wrong as well, so it does not rely on their parsing: a password with an unquoted slash in it
    is no part of the host to `urlsplit`.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "***" if "@" in url else url
    place, question, query = rest.partition("?")
    if "@" in query or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme):
        return "***"
    _, at, host = place.rpartition("@")
    return f"{scheme}://{'***@' if at else ''}{host}{'?***' if question else ''}"


def hidden(text: str) -> str:
    """Hide API keys as a whole: of a wrong text nobody knows which part is a key; the name of a file is none."""
    return text if not text or text.startswith("@") else "***"


def masked(text: str) -> str:
    """Hide a secret as a whole, but not that there is none."""
    return text and "***"
