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
        shares.begin("eve", host)
    assert (shares.room, shares.under_way, dict(shares.free())) == (7, 3, {"a": 2, "b": 3})
    shares.end("eve", "a", answered=True)
    shares.end("eve", "b", answered=True)
    assert (shares.room, dict(shares.free())) == (9, {"a": 3})


def test_owners_are_counted() -> None:
    """While they have something under way, wherever that goes."""
    shares = _shares()
    for owner, host in (("eve", "a"), ("eve", "b"), ("bob", "a")):
        shares.begin(owner, host)
    assert shares.owners() == {"eve": 2, "bob": 1}
    shares.end("eve", "a", answered=True)
    shares.end("bob", "a", answered=False)
    assert shares.owners() == {"eve": 1}


def test_a_silent_host_has_less_until_it_answers() -> None:
    """What is under way there already may be more than its share."""
    shares = _shares()
    for _ in range(4):
        shares.begin("eve", "a")
    shares.end("eve", "a", answered=False)
    assert dict(shares.free()) == {"a": -2}
    for _ in range(3):
        shares.end("eve", "a", answered=False)
    assert dict(shares.free()) == {"a": 1}
    shares.begin("eve", "a")
    shares.end("eve", "a", answered=True)
    assert dict(shares.free()) == {}


def test_what_is_remembered_is_bounded() -> None:
    """However many hosts are silent; the last ones are known, and the oldest is forgotten first."""
    shares = _shares()
    for host in range(2 * MOST_SILENT):
        shares.begin("eve", str(host))
        shares.end("eve", str(host), answered=False)
    assert list(shares.free().items()) == [(str(host), 1) for host in range(MOST_SILENT, 2 * MOST_SILENT)]
    assert shares.under_way == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=100))
def test_what_has_ended_leaves_nothing_under_way(tries: list[tuple[int, bool]]) -> None:
    """Whatever came of it, in whatever order: the room is as it was, and a host is silent as its last try was."""
    shares = _shares()
    for host, _ in tries:
        shares.begin("eve", str(host))
    assert shares.room == 10 - len(tries)
    for host, answered in tries:
        shares.end("eve", str(host), answered=answered)
    silent = {str(host) for host, answered in dict(tries).items() if not answered}
    assert (shares.room, dict(shares.free())) == (10, dict.fromkeys(silent, 1))
