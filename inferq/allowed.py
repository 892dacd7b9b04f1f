"""What a setting may be: a parser takes its text and returns its value, or raises ValueError with what is allowed."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from inferq.apikeys import parse_setting
from inferq.modelspec import parse as parse_model
from inferq.origins import parse_origins
from inferq.webhooks.guard import parse_hosts
from inferq.webhooks.signing import check_secret


def integer(low: int, high: int) -> Callable[[str], int]:
    """Take a whole number, both bounds included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


def integer_or(word: str, low: int, high: int) -> Callable[[str], int]:
    """Take a whole number, both bounds included, or a word that stands for 0."""
    number = integer(low, high)

    def parse(text: str) -> int:
        if text in {word, "0"}:
            return 0
        try:
            return number(text)
        except ValueError as error:
            raise ValueError(f"{word} or {error}") from None

    return parse


def choice(*allowed: str) -> Callable[[str], str]:
    """Take one of these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return text

    return parse


def pattern(form: str, allowed: str) -> Callable[[str], str]:
    """Take what matches a regular expression as a whole; ``allowed`` says it in words."""

    def parse(text: str) -> str:
        if not re.fullmatch(form, text):
            raise ValueError(allowed)
        return text

    return parse


def url(*schemes: str, words: tuple[str, ...] = ()) -> Callable[[str], str]:
    """Take an empty text, one of ``words``, or a URL with a host and one of these schemes."""
    allowed = " or ".join([*words, *(f"{scheme}://host:port" for scheme in schemes)])

    def parse(text: str) -> str:
        if text == "" or text in words:
            return text
        try:
            parts = urlsplit(text)
            usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"a URL like {allowed}")
        return text

    return parse


def switch(text: str) -> bool:
    """Take 0 or 1."""
    if text not in {"0", "1"}:
        raise ValueError("0 or 1")
    return text == "1"


def model(text: str) -> str:
    """Take a model specification, as it stands."""
    parse_model(text)
    return text


def api_keys(text: str) -> str:
    """Take API keys, or the name of their file, as they stand."""
    parse_setting(text)
    return text


def origins(text: str) -> str:
    """Take origins of web pages, as they stand."""
    parse_origins(text)
    return text


def webhook_hosts(text: str) -> str:
    """Take the hosts that webhooks may go to besides, as they stand."""
    parse_hosts(text)
    return text


def webhook_secret(text: str) -> str:
    """Take the secret that webhooks are signed with, as it stands, or none."""
    return check_secret(text)
