"""Who calls, by the header of the call, and what becomes of that when the file of the keys changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from inferq import keyring
from inferq.apikeys import ANYONE, Caller, digest_of
from inferq.background import end
from inferq.errors import OperatorError, Unauthorized
from inferq.keyring import MOST_FILE_BYTES, KeyRing, count_keys, the_one
from inferq.settings import load
from tests.support import eventually

ALICE, BOB = "S3CRET-alice-0123456789", "S3CRET-bob-0123456789"


def bearer(key: str, scheme: str = "Bearer") -> bytes:
    """The header that carries a key."""
    return f"{scheme} {key}".encode()


@pytest.fixture
def said() -> Iterator[list[EventDict]]:
    """What is logged."""
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with Alice's key."""
    path = tmp_path / "keys"
    path.write_text(f"alice:{ALICE}\n")
    path.chmod(0o600)
    return path


def replaced(file: Path, text: str | bytes) -> None:
    """Put another file in the place of one, as editors and secret stores do."""
    draft = file.with_suffix(".new")
    draft.write_bytes(text if isinstance(text, bytes) else text.encode())
    draft.replace(file)


def knows(ring: KeyRing, key: str) -> bool:
    """Say whether a key is known."""
    try:
        ring.caller(bearer(key))
    except Unauthorized:
        return False
    return True


def test_without_keys_everybody_is_anyone() -> None:
    """Whatever header comes, none is asked for."""
    ring = KeyRing("")
    assert ring.keys == 0
    for header in (None, b"", bearer(ALICE), b"\xff"):
        assert ring.caller(header) is ANYONE


def test_keys_are_counted_wherever_they_stand(file: Path) -> None:
    """In the setting or in its file; a file that cannot be used is the operator's mistake."""
    assert count_keys("") == 0
    assert count_keys(f"alice:{ALICE},bob:{BOB}") == 2
    assert count_keys(f"@{file}") == 1
    with pytest.raises(OperatorError, match=f"INFERQ_API_KEYS=@{file}x: the file cannot be read"):
        count_keys(f"@{file}x")


def test_a_key_makes_its_caller() -> None:
    """With the rights of its entry and the usual quotas; the scheme is written in any case."""
    settings, _ = load(
        {"INFERQ_API_KEYS": f"a:{ALICE},b:{BOB}:admin:rate=9", "INFERQ_KEY_RATE": "5", "INFERQ_KEY_JOBS": "7"}
    )
    ring = KeyRing.of(settings)
    assert ring.keys == 2
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert ring.caller(bearer(ALICE, scheme)) == Caller(name="a", rate_per_s=5, jobs=7)
    assert ring.caller(bearer(BOB)) == Caller(name="b", admin=True, rate_per_s=9, jobs=7)


def test_a_hashed_key_is_given_plain() -> None:
    """The digest that stands in the setting is no key itself."""
    hashed = digest_of(ALICE.encode()).hex()
    ring = KeyRing(f"a:sha256={hashed}")
    assert ring.caller(bearer(ALICE)).name == "a"
    for wrong in (hashed, f"sha256={hashed}"):
        assert not knows(ring, wrong)


@pytest.mark.parametrize(
    "header",
    [
        None, b"", b"Bearer", b"Bearer ", b"Bearer  " + ALICE.encode(), bearer(ALICE) + b" ", bearer(ALICE[:-1]),
        bearer(ALICE + "x"), bearer(ALICE.lower()), ALICE.encode(), bearer(ALICE, "Basic"), bearer(BOB),
        bearer(ALICE) + b", " + bearer(ALICE), b"Bearer\t" + ALICE.encode(), b"\xff" * 40, bearer("k" * 100_000),
    ],
)  # fmt: skip  # headers side by side
def test_no_key_or_a_wrong_one_is_unauthorized(header: bytes | None) -> None:
    """However near it comes, and without a word of it."""
    with pytest.raises(Unauthorized) as caught:
        KeyRing(f"a:{ALICE}").caller(header)
    assert "S3CRET" not in caught.value.detail


def test_the_longest_key_fits() -> None:
    """What is allowed in a setting is taken in a header."""
    assert KeyRing(f"a:{'k' * 255}").caller(bearer("k" * 255)).name == "a"


def test_there_is_one_header() -> None:
    """Two say that somebody in between may have checked the other one."""
    assert the_one([(b"host", b"h"), (b"authorization", b"x")]) == b"x"
    assert the_one([(b"host", b"h")]) is None
    with pytest.raises(Unauthorized, match="one Authorization header"):
        the_one([(b"authorization", b"x"), (b"host", b"h"), (b"authorization", b"x")])


def test_a_file_holds_the_keys(file: Path, said: list[EventDict]) -> None:
    """Named by its whole name or from where the process stands, with or without a byte order mark."""
    replaced(file, b"\xef\xbb\xbf" + file.read_bytes())
    file.chmod(0o600)
    assert KeyRing(f"@{file}").caller(bearer(ALICE)).name == "alice"
    assert KeyRing(f"@{os.path.relpath(file)}").keys == 1
    assert said == []


@pytest.mark.parametrize("rights", [0o640, 0o604])
def test_a_file_that_others_may_read_is_warned_of(file: Path, said: list[EventDict], rights: int) -> None:
    """Once, at the start, with the cure."""
    file.chmod(rights)
    KeyRing(f"@{file}")
    (entry,) = said
    assert (entry["log_level"], entry["event"], entry["file"]) == (
        "warning",
        "keys.readable_by_others",
        str(file),
    )
    assert "chmod 600" in entry["cure"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, r"the file cannot be read \(No such file or directory\)"),
        (b"", "there is no key: write one name:key"),
        (b"S3CRET", "line 1 is not name:key"),
        (b"a:S3CRET-\xff-0123456789", "the file is not UTF-8"),
        (b"#" * (MOST_FILE_BYTES + 1), "the file is too large: 33554432 bytes are allowed"),
    ],
    ids=["none", "empty", "wrong", "binary", "large"],
)
def test_a_file_that_cannot_be_used_stops_the_start(
    file: Path, content: bytes | None, complaint: str
) -> None:
    """One line that names the setting, the file and what is wrong with it."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(OperatorError, match=complaint) as caught:
        KeyRing(f"@{file}")
    assert str(caught.value).startswith(f"INFERQ_API_KEYS=@{file}: ")
    assert "S3CRET" not in str(caught.value)


async def test_without_a_file_there_is_nothing_to_watch() -> None:
    """The task ends at once, and the keys stay."""
    ring = KeyRing(f"a:{ALICE}")
    async with asyncio.timeout(5.0):
        await ring.watch()
    assert knows(ring, ALICE)


@pytest.fixture
async def ring(file: Path, monkeypatch: pytest.MonkeyPatch, said: list[EventDict]) -> AsyncIterator[KeyRing]:
    """A ring that follows the file, as often as it can."""
    monkeypatch.setattr(keyring, "LOOK_EVERY_S", 0.01)
    ring = KeyRing(f"@{file}", rate_per_s=5)
    watching = asyncio.create_task(ring.watch())
    yield ring
    await end(watching)


async def test_a_changed_file_is_taken_over(ring: KeyRing, file: Path, said: list[EventDict]) -> None:
    """New keys are known and old ones are not, without a restart; the log says how many there are, once."""
    replaced(file, f"bob:{BOB}\ncarol:sha256={'0' * 64}\n")
    await eventually(lambda: knows(ring, BOB), what="Bob's key")
    assert not knows(ring, ALICE)
    assert ring.caller(bearer(BOB)) == Caller(name="bob", rate_per_s=5)
    (entry,) = said
    assert (entry["log_level"], entry["event"], entry["keys"]) == ("info", "keys.changed", 2)
    replaced(file, f"alice:{ALICE}\n")
    await eventually(lambda: knows(ring, ALICE), what="Alice's key")


@pytest.mark.parametrize(
    ("entries", "stands"),
    [
        (f"alice:{ALICE}\nbob:{BOB}\n", True),
        (f"alice:{ALICE}:rate=9\n", True),
        (f"alice:{BOB}\n", False),
        (f"eve:{ALICE}\n", False),
        (f"alice:{ALICE}:admin\n", False),
    ],
    ids=["same", "other quota", "other key", "other name", "other rights"],
)
async def test_who_was_let_in_is_looked_at_again(
    ring: KeyRing, file: Path, entries: str, stands: bool
) -> None:
    """Whoever serves callers for long hears of a change, and finds whose key means somebody else now."""
    caller, changed = ring.caller(bearer(ALICE)), asyncio.Event()
    assert ring.stands(caller)
    ring.on_change(changed.set)
    replaced(file, entries)
    async with asyncio.timeout(10.0):
        await changed.wait()
    assert ring.stands(caller) == stands


def test_without_keys_anyone_stands() -> None:
    """There is none to be taken away."""
    assert KeyRing("").stands(ANYONE)


@pytest.mark.parametrize("wrong", [None, "", "S3CRET\n"], ids=["gone", "empty", "broken"])
async def test_a_broken_file_leaves_the_keys_as_they_were(
    ring: KeyRing, file: Path, said: list[EventDict], wrong: str | None
) -> None:
    """It is said once, without what is in the file, and a good file is taken over again."""
    if wrong is None:
        os.replace(file, file.with_suffix(".gone"))
    else:
        replaced(file, wrong)
    await eventually(lambda: said, what="the error")
    looks = 0
    original = ring._changed

    def counted(path: Path) -> object:
        nonlocal looks
        looks += 1
        return original(path)

    ring._changed = counted  # type: ignore[method-assign,assignment]  # to see that it looks again
    await eventually(lambda: looks > 3, what="further looks")
    (entry,) = said
    assert (entry["log_level"], entry["event"], entry["kept"]) == ("error", "keys.unusable", 1)
    assert "S3CRET" not in str(entry)
    assert knows(ring, ALICE)
    replaced(file, f"alice:{ALICE}\nbob:{BOB}\n")
    await eventually(lambda: knows(ring, BOB), what="Bob's key")
    assert knows(ring, ALICE)
