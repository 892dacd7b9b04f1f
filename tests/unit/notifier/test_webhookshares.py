"""No host takes more than its share of the tries under way."""

from hypothesis import given
from hypothesis import strategies as st

from notifier.webhookshares import MOST_SILENT, Shares


def _shares() -> Shares:
    return Shares(most=10, of_host=4, of_silent=1)


def test_a_host_of_which_nothing_is_known_is_not_named() -> None:
    """It has the share of any host."""
    shares = _shares()
    assert (shares.room, shares.of_host, dict(shares.free())) == (10, 4, {})


def test_what_is_under_way_counts() -> None:
    """In all and for its host, until it ends."""
    shares = _shares()
    for host in ("a", "a", "b"):
        shares.begin(host)
    assert (shares.room, shares.under_way, dict(shares.free())) == (7, 3, {"a": 2, "b": 3})
    shares.end("a", answered=True)
    shares.end("b", answered=True)
    assert (shares.room, dict(shares.free())) == (9, {"a": 3})


def test_a_silent_host_has_less_until_it_answers() -> None:
    """What is under way there already may be more than its share."""
    shares = _shares()
    for _ in range(4):
        shares.begin("a")
    shares.end("a", answered=False)
    assert dict(shares.free()) == {"a": -2}
    for _ in range(3):
        shares.end("a", answered=False)
    assert dict(shares.free()) == {"a": 1}
    shares.begin("a")
    shares.end("a", answered=True)
    assert dict(shares.free()) == {}


@given(st.lists(st.integers(0, 400), max_size=600))
def test_what_is_remembered_is_bounded(hosts: list[int]) -> None:
    """However many hosts are silent; the last ones are known."""
    shares = _shares()
    for host in hosts:
        shares.begin(str(host))
        shares.end(str(host), answered=False)
    assert len(shares.free()) <= MOST_SILENT
    assert shares.under_way == 0
    if hosts:
        assert shares.free()[str(hosts[-1])] == 1
