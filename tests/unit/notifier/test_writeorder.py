"""Whose messages are written in a turn."""

from dataclasses import dataclass

from notifier.writeorder import AT_A_TIME, RESTED_S, parted


@dataclass
class Client:
    """A client that was written to at some time."""

    number: int
    written_s: float


def clients(count: int, written_s: float, *, first: int = 0) -> list[Client]:
    """Make clients with numbers in a row."""
    return [Client(first + number, written_s) for number in range(count)]


def test_few_are_all_served() -> None:
    """However often they were written to."""
    woken = clients(AT_A_TIME, 5.0)
    assert parted(woken, 5.0) == (woken, [])


def test_the_rested_go_first_and_all_of_them() -> None:
    """Of those who were just written to only some, in their order; the others wait."""
    busy, rested = clients(100, 5.0), clients(200, 5.0 - RESTED_S, first=100)
    now, later = parted([*busy[:50], *rested, *busy[50:]], 5.0)
    assert now == rested + busy[:AT_A_TIME]
    assert later == busy[AT_A_TIME:]


def test_all_are_served_in_the_end() -> None:
    """Though others keep coming first."""
    waiting, served, turns = clients(100, 5.0), [], 0
    while waiting:
        coming = clients(40, 0.0, first=1000 + 40 * turns)
        now, waiting = parted([*waiting, *coming], 5.0)
        served += [one.number for one in now if one.number < 1000]
        turns += 1
    assert served == list(range(100))
    assert turns == 4
