"""How long a submit is willing to wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.prefer import MOST_S, wait_s


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (b"wait=1", 1), (b"wait=10", 10), (b"wait=60", 60), (b"wait=007", 7), (b"WAIT=5", 5), (b"Wait = 5", 5),
        (b"\twait=5\t", 5), (b'wait="5"', 5), (b"wait=61", MOST_S), (b"wait=86400", MOST_S),
        (b"wait=" + b"9" * 5000, MOST_S), (b"wait=" + b"0" * 5000 + b"3", 3),
        (b"respond-async, wait=10", 10), (b"wait=10,respond-async", 10), (b"respond-async,,wait=10", 10),
        (b"wait=10; foo=bar", 10), (b"wait=10;foo", 10), (b'wait=10; foo="a, b"', 10),
        (b'return=minimal; x="a, wait=3", wait=10', 10), (b'foo="\\"", wait=4', 4),
        (b"wait=10, wait=20", 10), (b"wait=20;a=b, wait=10", 20),
    ],
)  # fmt: skip  # cases side by side
def test_a_wait_is_found(prefer: bytes, seconds: int) -> None:
    """Among other preferences, in any case, quoted, with parameters; the first one, and at most a minute."""
    assert wait_s(prefer) == seconds


@pytest.mark.parametrize(
    "prefer",
    [
        b"", b",", b"respond-async", b"wait", b"wait=", b'wait=""', b"wait=0", b"wait=00", b"wait=-1", b"wait=+1",
        b"wait=1.5", b"wait=1s", b"wait=ten", b"wait=1 0", b'wait="1', b"wait='1'", b"wait:1", b"waits=1",
        b"await=1", b"x-wait=1", b"wait =", b"wait;n=1", b'x="wait=1"', b'x="wait=1', b"x;wait=1", b"\xff", b"=1",
        b"wait=\xb2", b"wait, wait=5", b"wait=x, wait=5", b"wait=0, wait=5",
    ],
)  # fmt: skip  # cases side by side
def test_what_is_no_wait_is_passed_over(prefer: bytes) -> None:
    """Malformed, of no seconds, within quotes, or another's parameter; a second one does not stand in."""
    assert wait_s(prefer) is None


@given(st.binary(max_size=60))
def test_whatever_comes_is_read(prefer: bytes) -> None:
    """No bytes break it, and what comes out is a wait or none."""
    assert wait_s(prefer) in {None, *range(1, MOST_S + 1)}


@given(st.integers(1, MOST_S), st.lists(st.sampled_from([b"respond-async", b"a=b", b'c="d, e"', b"f;g=h"])))
def test_others_do_not_matter(seconds: int, others: list[bytes]) -> None:
    """Wherever it stands among them."""
    for place in range(len(others) + 1):
        parts = [*others[:place], b"wait=%d" % seconds, *others[place:]]
        assert wait_s(b", ".join(parts)) == seconds
