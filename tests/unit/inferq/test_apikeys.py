"""API keys as an operator writes them down: what is allowed, what is said otherwise, and who a key makes its caller."""

import hashlib
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inferq.apikeys import (
    ANYONE,
    FORM,
    MOST_ENTRIES,
    Caller,
    Entry,
    digest_of,
    file_of,
    may_see,
    parse_file,
    parse_setting,
    plain_key,
    usable,
)

KEY = "S3CRET-0123456789"
OTHER = "another-key-0123456789"
HASH = hashlib.sha256(b"x" * 20).hexdigest()


def entry(name: str, key: str, **changes: object) -> Entry:
    """What an entry with this key comes to."""
    values = {"admin": False, "rate_per_s": None, "jobs": None, **changes}
    return Entry(name=name, digest=hashlib.sha256(key.encode()).digest(), **values)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", ()),
        ("@keys", ()),
        ("@/etc/inferq/keys", ()),
        (f"a:{KEY}", (entry("a", KEY),)),
        (f" a:{KEY} , b:{OTHER}:admin ", (entry("a", KEY), entry("b", OTHER, admin=True))),
        (f"a:{KEY}:rate=5:jobs=0:admin", (entry("a", KEY, admin=True, rate_per_s=5, jobs=0),)),
        (f"a:{KEY}:jobs=10000000:rate=1000000", (entry("a", KEY, rate_per_s=1_000_000, jobs=10_000_000),)),
        (f"a:sha256={HASH}", (entry("a", "x" * 20),)),
        (f"a:{KEY}:webhook=https://h:1/x?a:b", (entry("a", KEY, webhook="https://h:1/x?a:b"),)),
        (
            f"a:{KEY}:jobs=1:webhook=http://h/:admin,b:{OTHER}",
            (entry("a", KEY, jobs=1, webhook="http://h/:admin"), entry("b", OTHER)),
        ),
        (f"a:sha256={HASH.upper()}:admin", (entry("a", "x" * 20, admin=True),)),
        (f"{'N' * 64}:{'k' * 16}", (entry("N" * 64, "k" * 16),)),
        (f"a-b_c.9:{'k' * 255}", (entry("a-b_c.9", "k" * 255),)),
        ("a:!\"#$%&'()*+-./;<=>?@[]^_`{|}~", (entry("a", "!\"#$%&'()*+-./;<=>?@[]^_`{|}~"),)),
    ],
)
def test_a_setting_is_read(text: str, entries: tuple[Entry, ...]) -> None:
    """Entries with commas between them, each with its rights and quotas in any order; a file is read by others."""
    assert parse_setting(text) == entries


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("@", "or @ and the name of a file"),
        ("@a\0b", "or @ and the name of a file"),
        (KEY, r"entry 1 is not name:key\[:admin\]"),
        (f"a:{KEY},", "entry 2 is empty: leave it out"),
        (f",a:{KEY}", "entry 1 is empty: leave it out"),
        (f":{KEY}", "entry 1 has a wrong name"),
        (f"a b:{KEY}", "entry 1 has a wrong name"),
        (f"ä:{KEY}", "entry 1 has a wrong name"),
        (f"{'n' * 65}:{KEY}", "entry 1 has a wrong name: it takes 1 to 64 letters, digits and _ . -"),
        (f"a\n:{KEY}", "entry 1 has a wrong name"),
        ("a:", "entry 1 has a key of 0 characters"),
        ("a:S3CRET", "entry 1 has a key of 6 characters: 16 to 255 are allowed, and `openssl rand -hex 32`"),
        (f"a:{'S3CRET' * 50}", "entry 1 has a key of 300 characters"),
        (f"a:{KEY} {KEY}", "entry 1 has a wrong character in its key"),
        (f"a:{KEY}\x7f", "entry 1 has a wrong character in its key"),
        (f"a:{KEY}ä", "entry 1 has a wrong character in its key"),
        (f"a:sha256={HASH[1:]}", "entry 1 has a wrong digest: sha256= takes 64 hexadecimal digits"),
        (f"a:sha256={HASH}0", "entry 1 has a wrong digest"),
        (
            f"a:{KEY}:Admin",
            "entry 1 has something behind its key that is not admin, rate=N, jobs=N or, at the end",
        ),
        (f"a:{KEY}:", "entry 1 has something behind its key"),
        (f"a:{KEY}:webhook=", "entry 1 has a wrong webhook: it must be a URL of 1 to 2000 characters"),
        (
            f"a:{KEY}:webhook=https://u:S3CRET@h/",
            "entry 1 has a wrong webhook: it must hold no user or password",
        ),
        (f"a:{KEY}:{OTHER}", "entry 1 has something behind its key"),
        (f"a:{KEY}:admin=1", "entry 1 has something behind its key"),
        (f"a:{KEY}:rate", "entry 1 has a wrong rate: it takes a whole number from 0 to 1000000"),
        (f"a:{KEY}:rate=1000001", "entry 1 has a wrong rate"),
        (f"a:{KEY}:rate=-1", "entry 1 has a wrong rate"),
        (f"a:{KEY}:rate=١", "entry 1 has a wrong rate"),
        (f"a:{KEY}:jobs=10000001", "entry 1 has a wrong jobs: it takes a whole number from 0 to 10000000"),
        (f"a:{KEY}:jobs={'9' * 5000}", "entry 1 has a wrong jobs"),
        (f"a:{KEY}:rate=1:rate=1", "entry 1 has rate twice: give it once"),
        (f"a:{KEY}:admin:admin", "entry 1 has admin twice"),
        (f"a:{KEY},b:{OTHER},a:{KEY}x", "entry 3 has the name of entry 1: each needs its own"),
        (f"a:{KEY},b:{OTHER},c:{KEY}", "entry 3 has the key of entry 1: each needs its own"),
        (f"a:{'x' * 20},b:sha256={HASH}", "entry 2 has the key of entry 1"),
    ],
)
def test_a_wrong_setting_is_said_by_its_place(text: str, complaint: str) -> None:
    """The number of the entry and what is allowed, on one line and without a word of its text."""
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_setting(text)
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{FORM} entries with commas between them")


def test_a_file_is_read() -> None:
    """One entry a line, whatever ends it; empty lines and comments are passed over."""
    text = f"# callers\r\n\r\n  a:{KEY}:admin  \r\n\t# b:{KEY}\n\nb:{OTHER}#:jobs=3"
    assert parse_file(text) == (entry("a", KEY, admin=True), entry("b", OTHER + "#", jobs=3))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no key: write one name:key"),
        ("# a\n\n", "there is no key"),
        (f"# a\n\na:{KEY}\nS3CRET", "^line 4 is not name:key"),
        (f"a:{KEY},b:{OTHER}", "^line 1 has a wrong character in its key"),
        (f"a:{KEY}\n# a\na:{OTHER}", "^line 3 has the name of line 1"),
        (f"@{KEY}", "^line 1 is not name:key"),
    ],
)
def test_a_wrong_file_is_said_by_its_line(text: str, complaint: str) -> None:
    """The line's number as an editor counts, and nothing of what stands there."""
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_file(text)
    assert "S3CRET" not in str(caught.value)


def test_the_number_of_keys_is_bounded() -> None:
    """As many as are allowed are read, and one more is refused."""
    lines = [f"n{number}:key-0123456789-{number}" for number in range(MOST_ENTRIES + 1)]
    assert len(parse_file("\n".join(lines[:-1]))) == MOST_ENTRIES
    with pytest.raises(ValueError, match="there are 10001 keys: 10000 are allowed"):
        parse_file("\n".join(lines))


NAMES = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=64)
KEYS = st.text(
    [chr(code) for code in range(33, 127) if chr(code) not in ",:"], min_size=16, max_size=255
).filter(lambda key: not key.startswith("sha256="))
Written = tuple[str, bool, int | None, int | None]
WRITTEN = st.tuples(KEYS, st.booleans(), st.none() | st.integers(0, 10**6), st.none() | st.integers(0, 10**7))


@given(st.dictionaries(NAMES, WRITTEN, max_size=5), st.booleans())
def test_whatever_is_written_is_read_again(written: dict[str, Written], hashed: bool) -> None:
    """Plain or hashed, in a setting or in a file, entries come to the same; and so does the plain key of them."""
    assume(len({key for key, *_ in written.values()}) == len(written))
    texts, entries = [], []
    for name, (key, admin, rate_per_s, jobs) in written.items():
        text = f"{name}:sha256={digest_of(key.encode()).hex()}" if hashed else f"{name}:{key}"
        options = [":admin"] * admin
        options += [f":rate={rate_per_s}"] * (rate_per_s is not None) + [f":jobs={jobs}"] * (jobs is not None)
        texts.append(text + "".join(options))
        entries.append(entry(name, key, admin=admin, rate_per_s=rate_per_s, jobs=jobs))
    assert parse_setting(",".join(texts)) == tuple(entries)
    if texts:
        assert parse_file("\n".join(texts)) == tuple(entries)
    admins = [key for key, admin, *_ in written.values() if admin]
    first = next(iter(admins or [key for key, *_ in written.values()]), None)
    assert plain_key(",".join(texts)) == (None if hashed else first)
    assert plain_key("\n".join(texts), in_file=True) == (None if hashed else first)


@given(st.text(), st.sampled_from(["a:{}", "{}", "{}:a", "a:{},b", "a:key-0123456789:{}", "a:sha256={}"]))
def test_nothing_of_a_wrong_text_is_said(text: str, around: str) -> None:
    """Whatever is written, it is read or refused on one line, and no key is in that."""
    secret = f"{text}S3CRET{text}"
    for parse in (parse_setting, parse_file):
        try:
            parse(around.format(secret))
        except ValueError as error:
            said = str(error)
            assert "S3CRET" not in said  # not every text is refused
            assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", None),
        ("@/etc/keys", None),
        (f"a:{KEY}", KEY),
        (f"broken,a:sha256={HASH},b:{OTHER}:rate=1,c:{KEY}", OTHER),
        (f"a:{OTHER},c:{KEY}:rate=5:admin", KEY),
    ],
)
def test_a_plain_key_is_found(text: str, key: str | None) -> None:
    """An admin's before any other, and none that is hashed; what is not allowed is passed over."""
    assert plain_key(text) == key


def test_where_the_keys_are() -> None:
    """A setting holds them or names a file."""
    assert (file_of("@/etc/keys"), file_of(f"a:{KEY}"), file_of("")) == ("/etc/keys", None, None)


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("k", True),
        ("k" * 255, True),
        ("", False),
        ("k" * 256, False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
    ],
)
def test_what_may_be_sent_as_a_key(key: str, is_one: bool) -> None:
    """What would break the header is none."""
    assert usable(key) is is_one


def test_an_entry_sets_its_own_quotas_or_takes_the_usual_ones() -> None:
    """Also 0, which is no limit where others have one."""
    usual = entry("a", KEY, admin=True)
    assert usual.caller(rate_per_s=5, jobs=7) == Caller(name="a", admin=True, rate_per_s=5, jobs=7)
    own = entry("a", KEY, rate_per_s=0, jobs=9)
    assert own.caller(rate_per_s=5, jobs=7) == Caller(name="a", rate_per_s=0, jobs=9)


def test_who_sees_which_jobs() -> None:
    """A caller its own; an admin, and anyone where there are no keys, all."""
    assert may_see(Caller(name="a"), "a")
    assert not may_see(Caller(name="a"), "b")
    assert not may_see(Caller(name="a"), "")
    assert may_see(Caller(name="a", admin=True), "b")
    assert may_see(Caller(name="a", admin=True), "")
    assert may_see(ANYONE, "a")


def test_who_has_a_quota() -> None:
    """A rate or a number of jobs, be it one of them alone."""
    assert Caller(name="a", rate_per_s=1).limited
    assert Caller(name="a", jobs=1).limited
    assert not Caller(name="a").limited
