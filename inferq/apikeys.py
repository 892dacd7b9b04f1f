"""API keys as an operator writes them down, and who a key makes its caller. Pure.

Rules:

1. An entry is `name:key`, then in any order `admin`, `rate=N`, `jobs=N`, each at most once, then `webhook=URL`, which
   takes the rest since a URL holds colons. A key stands for itself or, as `sha256=` with 64 hexadecimal digits, for
   what has this SHA-256 digest.
2. A setting holds entries with commas between them (one in a URL is written `%2C`), or `@` and the name of a file. A
   file holds one entry a line; empty lines and lines that begin with `#` are passed over.
3. No two entries share a name or a key: a name is whose jobs they are, so it must mean one caller.
4. Of a key only the digest is kept. What is wrong is said by the entry's place, never by its text: of a wrong entry
   nobody knows which part of it is the key.
5. A short key can be guessed, so it is refused. A digest needs no salt, since a key is no password: long and random.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from inferq.webhooks.url import parse as parse_webhook

FORM: Final = "name:key[:admin][:rate=N][:jobs=N][:webhook=URL]"
MOST_ENTRIES: Final = 10_000
SHORTEST_KEY: Final = 16
LONGEST_KEY: Final = 255
MOST_RATE: Final = 1_000_000
MOST_JOBS: Final = 10_000_000

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HASHED: Final = "sha256="
_WEBHOOK: Final = ":webhook="
_HEX: Final = re.compile(r"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who calls: the name of its key, and what that may do; 0 is no limit.

    ``webhook`` is the URL that is told of its jobs' ends where these name none; empty for none. ``digest`` is
    its key's, and no part of who it is.
    """

    name: str
    admin: bool = False
    rate_per_s: int = 0
    jobs: int = 0
    webhook: str = ""
    digest: bytes = field(default=b"", repr=False, compare=False)

    @property
    def limited(self) -> bool:
        """Whether it has a quota."""
        return self.rate_per_s > 0 or self.jobs > 0


ANYONE: Final = Caller(name="", admin=True)
"""The caller of a deployment without keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One key: its SHA-256 digest, its caller's name and rights; a quota is None where the entry sets none."""

    name: str
    digest: bytes
    admin: bool
    rate_per_s: int | None
    jobs: int | None
    webhook: str = ""

    def caller(self, *, rate_per_s: int, jobs: int) -> Caller:
        """Return who the key makes its caller, with these quotas where the entry sets none of its own."""
        return Caller(
            name=self.name,
            admin=self.admin,
            rate_per_s=rate_per_s if self.rate_per_s is None else self.rate_per_s,
            jobs=jobs if self.jobs is None else self.jobs,
            webhook=self.webhook,
            digest=self.digest,
        )


def may_see(caller: Caller, owner: str) -> bool:
    """Say whether a caller may see the jobs of this owner; "" owns what came in without a key."""
    return caller.admin or caller.name == owner


def file_of(setting: str) -> str | None:
    """Return the name of the file that a setting names, or None where it holds the keys itself."""
    return setting[1:] if setting.startswith("@") else None


def parse_setting(text: str) -> tuple[Entry, ...]:
    """Read the entries of a setting; none for an empty one, and for one that names a file.

    Raises:
        ValueError: what is allowed, and which entry is something else.
    """
    if not text:
        return ()
    if text.startswith("@"):
        if text == "@" or "\0" in text:
            raise ValueError(f"{FORM} entries with commas between them, or @ and the name of a file")
        return ()
    try:
        return _entries("entry", dict(enumerate(text.split(","), start=1)))
    except ValueError as error:
        raise ValueError(f"{FORM} entries with commas between them, or @file; {error}") from None


def parse_file(text: str) -> tuple[Entry, ...]:
    """Read the entries of a file.

    Raises:
        ValueError: which line is wrong, and how to mend it; or that there is no entry.
    """
    entries = _entries("line", dict(_lines(text)))
    if not entries:
        raise ValueError(f"there is no key: write one {FORM} a line")
    return entries


def plain_key(text: str, *, in_file: bool = False) -> str | None:
    """Return a key that is written out and not hashed, in a setting or a file: an admin's before any other.

    None when there is none; entries that are not allowed are passed over.
    """
    first = None
    for entry in [line for _, line in _lines(text)] if in_file else text.split(","):
        try:
            found = _entry(entry.strip())
        except ValueError:
            continue
        key = entry.strip().split(":")[1]
        if not key.startswith(_HASHED):
            if found.admin:
                return key
            first = first or key
    return first


def usable(key: str) -> bool:
    """Say whether a text may be sent as a key: it is none otherwise, and would break the header that it is sent in."""
    return 0 < len(key) <= LONGEST_KEY and all("!" <= char <= "~" for char in key)


def digest_of(key: bytes) -> bytes:
    """Return what is kept of a key."""
    return hashlib.sha256(key).digest()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _entries(unit: str, texts: Mapping[int, str]) -> tuple[Entry, ...]:
    if len(texts) > MOST_ENTRIES:
        raise ValueError(f"there are {len(texts)} keys: {MOST_ENTRIES} are allowed")
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    entries = []
    for number, text in texts.items():
        try:
            entry = _entry(text.strip())
        except ValueError as error:
            raise ValueError(f"{unit} {number} {error}") from None
        for what, first in (
            ("name", names.setdefault(entry.name, number)),
            ("key", digests.setdefault(entry.digest, number)),
        ):
            if first != number:
                raise ValueError(f"{unit} {number} has the {what} of {unit} {first}: each needs its own")
        entries.append(entry)
    return tuple(entries)


def _entry(text: str) -> Entry:
    name, colon, rest = text.partition(":")
    if not text:
        raise ValueError("is empty: leave it out")
    if not colon:
        raise ValueError(f"is not {FORM}")
    if not _NAME.fullmatch(name):
        raise ValueError("has a wrong name: it takes 1 to 64 letters, digits and _ . -")
    rest, webhook = _webhook(rest)
    key, *options = rest.split(":")
    digest = _digest(key)
    given: dict[str, int] = {}
    for option in options:
        word, value = _option(option)
        if word in given:
            raise ValueError(f"has {word} twice: give it once")
        given[word] = value
    return Entry(
        name=name,
        digest=digest,
        admin="admin" in given,
        rate_per_s=given.get("rate"),
        jobs=given.get("jobs"),
        webhook=webhook,
    )


def _webhook(text: str) -> tuple[str, str]:
    """Part what precedes a webhook from its URL; whether its host is allowed, the list of hosts says elsewhere."""
    before, found, webhook = text.partition(_WEBHOOK)
    if found:
        try:
            parse_webhook(webhook)
        except ValueError as error:
            raise ValueError(f"has a wrong webhook: it {error}") from None
    return before, webhook


def _digest(key: str) -> bytes:
    if key.startswith(_HASHED):
        if not _HEX.fullmatch(key, len(_HASHED)):
            raise ValueError(f"has a wrong digest: {_HASHED} takes 64 hexadecimal digits")
        return bytes.fromhex(key[len(_HASHED) :])
    if not all("!" <= char <= "~" and char != "," for char in key):
        raise ValueError("has a wrong character in its key: visible ASCII without , and : is allowed")
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise ValueError(
            f"has a key of {len(key)} characters: {SHORTEST_KEY} to {LONGEST_KEY} are allowed,"
            " and `openssl rand -hex 32` makes a good one"
        )
    return digest_of(key.encode())


def _option(text: str) -> tuple[str, int]:
    if text == "admin":
        return text, 1
    word, _, number = text.partition("=")
    most = {"rate": MOST_RATE, "jobs": MOST_JOBS}.get(word)
    if most is None:
        raise ValueError(
            "has something behind its key that is not admin, rate=N, jobs=N or, at the end, webhook=URL"
        )
    if not re.fullmatch(r"[0-9]{1,9}", number) or int(number) > most:
        raise ValueError(f"has a wrong {word}: it takes a whole number from 0 to {most}")
    return word, int(number)
