"""Which failures in a row are told."""

from inferq.sparsely import Sparsely


def test_the_first_is_told_then_ever_rarer_ones() -> None:
    """Of failures once a second the tellings are twice as far apart each time, up to the bound."""
    sparsely = Sparsely(first_s=10, most_s=60)
    assert [now for now in range(300) if sparsely.due(now)] == [0, 10, 30, 70, 130, 190, 250]


def test_a_success_starts_over() -> None:
    """The next failure is told at once, and the distances are short again."""
    sparsely = Sparsely(first_s=10, most_s=60)
    assert [now for now in range(40) if sparsely.due(now)] == [0, 10, 30]
    sparsely.reset()
    assert [now for now in range(40, 80) if sparsely.due(now)] == [40, 50, 70]
