"""Holds the API keys of this process, says who calls, and follows the file that the keys are in.

No secret is compared by `==`. A key is hashed, and its digest hashed again with a secret of this process: nobody
outside can know which table slot that leads to, so what the look-up takes tells nothing; the rest is `compare_digest`.

A file that is broken, gone or empty leaves the keys as they were, since a slip must not lock everybody out: to take the
last key away, put another one in its place, or stop the service.
"""

import asyncio
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import Final

import structlog

from inferq.apikeys import ANYONE, LONGEST_KEY, Caller, Entry, digest_of, file_of, parse_file, parse_setting
from inferq.errors import OperatorError, Unauthorized
from inferq.settings import Settings
from inferq.webhooks.policy import Policy

LOOK_EVERY_S: Final = 1.0
# Ten thousand of the longest entries are less than this.
MOST_FILE_BYTES: Final = 32 * 1024 * 1024
_SCHEME: Final = b"bearer "
_MOST_HEADER_BYTES: Final = len(_SCHEME) + LONGEST_KEY

_log = structlog.get_logger(__name__)

_Mark = tuple[int, ...]
"""By what a changed file is told: its times, size and number."""


class KeyRing:
    """The keys, and who they make their callers; without any key everybody is `ANYONE`.

    ``webhooks`` says which webhooks the keys may have; without it any that has the form of one.

    Raises:
        OperatorError: the file of the keys cannot be used, or a key's webhook is not taken here.
    """

    def __init__(
        self, setting: str, *, rate_per_s: int = 0, jobs: int = 0, webhooks: Policy | None = None
    ) -> None:
        self._rate_per_s, self._jobs, self._webhooks = rate_per_s, jobs, webhooks
        self._secret = secrets.token_bytes(32)
        name = file_of(setting)
        self._file = None if name is None else Path(name).absolute()
        self._mark: _Mark | None = None
        self._complaint = ""
        self._listeners: list[Callable[[], None]] = []
        if self._file is None:
            entries: Sequence[Entry] = parse_setting(setting)
        else:
            entries, self._mark, open_to_others = _first_read(self._file, setting)
            if open_to_others:
                _log.warning("keys.readable_by_others", file=str(self._file), cure="chmod 600 it")
        try:
            self._callers = self._table(entries)
        except ValueError as error:
            raise OperatorError(f"INFERQ_API_KEYS: {error}") from None

    @classmethod
    def of(cls, settings: Settings) -> "KeyRing":
        """Make the ring that settings name; raises OperatorError."""
        return cls(
            settings.api_keys,
            rate_per_s=settings.key_rate,
            jobs=settings.key_jobs,
            webhooks=Policy.of(settings),
        )

    @property
    def keys(self) -> int:
        """How many keys there are; 0 when none is asked for."""
        return len(self._callers)

    def caller(self, authorization: bytes | None) -> Caller:
        """Say who calls, by the one `Authorization` header of the call.

        Raises:
            Unauthorized: there is none, or its key is not known.
        """
        if not self._callers:
            return ANYONE
        if authorization is None:
            raise Unauthorized("give an API key: Authorization: Bearer <key>")
        if len(authorization) <= _MOST_HEADER_BYTES and authorization[:7].lower() == _SCHEME:
            digest = digest_of(authorization[7:])
            known = self._callers.get(self._place(digest))
            if known is not None and compare_digest(known[0], digest):
                return known[1]
        raise Unauthorized("this API key is not known: Authorization: Bearer <key>")

    def stands(self, caller: Caller) -> bool:
        """Say whether a caller's key is still known, and still means the same caller with the same rights.

        Whoever serves a caller for long asks again when the keys have changed (`on_change`): a key that was taken
        away may be in the wrong hands.
        """
        if not self._callers:
            return True
        known = self._callers.get(self._place(caller.digest))
        return known is not None and (known[1].name, known[1].admin) == (caller.name, caller.admin)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have this called whenever the keys have changed."""
        self._listeners.append(listener)

    def caller_with(self, key: str) -> Caller:
        """Say who calls, by a key that came in a message; raises `Unauthorized` as `caller` does."""
        # What is no ASCII is no key; it only has to stay that.
        return self.caller(b"Bearer " + key.encode(errors="replace"))

    async def watch(self) -> None:
        """Follow the file until cancelled; without one there is nothing to follow, and it returns."""
        while self._file is not None:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look(self._file)

    async def look(self, file: Path) -> None:
        """Take the keys over if the file has changed; say so once if it cannot be used."""
        try:
            # On a thread: the file may be on a slow disk, and ten thousand keys take a while to read.
            table = await asyncio.to_thread(self._changed, file)
        except ValueError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.error("keys.unusable", file=str(file), detail=self._complaint, kept=self.keys)
            return
        self._complaint = ""
        if table is not None:
            self._callers = table
            _log.info("keys.changed", file=str(file), keys=self.keys)
            for listener in self._listeners:
                listener()

    def _changed(self, file: Path) -> dict[bytes, tuple[bytes, Caller]] | None:
        try:
            if _mark(file.stat()) == self._mark:
                return None
        except OSError as error:
            # It may come back as it was, and is then read again.
            self._mark = None
            raise _unreadable(error) from None
        entries, self._mark, _ = _read(file)
        return self._table(entries)

    def _table(self, entries: Sequence[Entry]) -> dict[bytes, tuple[bytes, Caller]]:
        """Return the table that callers are looked up in; raises ValueError."""
        for entry in entries:
            if entry.webhook and self._webhooks is not None:
                try:
                    self._webhooks.check(entry.webhook)
                except ValueError as error:
                    raise ValueError(f"the webhook of the key {entry.name} {error}") from None
        return {
            self._place(entry.digest): (
                entry.digest,
                entry.caller(rate_per_s=self._rate_per_s, jobs=self._jobs),
            )
            for entry in entries
        }

    def _place(self, digest: bytes) -> bytes:
        return hashlib.blake2s(digest, key=self._secret).digest()


def count_keys(setting: str) -> int:
    """Return how many keys a setting holds, or the file that it names; raises OperatorError as `KeyRing` does."""
    name = file_of(setting)
    return len(parse_setting(setting) if name is None else _first_read(Path(name), setting)[0])


def the_one(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the `Authorization` among raw headers with names in lower case; None when there is none.

    Raises:
        Unauthorized: there are several, so nobody knows which one a proxy in between has looked at.
    """
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) > 1:
        raise Unauthorized("give one Authorization header")
    return found[0] if found else None


def _first_read(file: Path, setting: str) -> tuple[Sequence[Entry], _Mark, bool]:
    try:
        return _read(file)
    except ValueError as error:
        raise OperatorError(f"INFERQ_API_KEYS={setting}: {error}") from None


def _read(file: Path) -> tuple[Sequence[Entry], _Mark, bool]:
    """Return a file's entries, its mark, and whether others than its owner may read it; raises ValueError."""
    try:
        with file.open("rb") as stream:
            found = os.fstat(stream.fileno())
            content = stream.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(error) from None
    if len(content) > MOST_FILE_BYTES:
        raise ValueError(f"the file is too large: {MOST_FILE_BYTES} bytes are allowed")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8: write it as plain text") from None
    return parse_file(text), _mark(found), bool(found.st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _mark(found: os.stat_result) -> _Mark:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def _unreadable(error: OSError) -> ValueError:
    return ValueError(f"the file cannot be read ({error.strerror}): name one that this process may read")
