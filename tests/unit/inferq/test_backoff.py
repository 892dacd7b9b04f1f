"""Waiting times between tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.backoff import Backoff


def test_waits_double_up_to_the_bound() -> None:
    """Without spread: twice as long each time, never longer than the bound."""
    backoff = Backoff(first_s=0.05, most_s=1.0, spread=lambda: 1.0)
    assert [backoff.next_s() for _ in range(7)] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_the_first_wait_is_short_and_the_longest_is_bearable() -> None:
    """Unless told otherwise: from 50 ms to 2 s, the time within which a client is told that a server is away."""
    backoff = Backoff(spread=lambda: 1.0)
    assert backoff.next_s() == pytest.approx(0.05)
    assert max(backoff.next_s() for _ in range(20)) == pytest.approx(2.0)


def test_a_success_starts_over() -> None:
    """After `reset` the first wait comes again, and the tries are counted anew."""
    backoff = Backoff(spread=lambda: 1.0)
    first = [backoff.next_s() for _ in range(3)]
    assert backoff.tries == 3
    backoff.reset()
    assert backoff.tries == 0
    assert [backoff.next_s() for _ in range(3)] == first


@given(st.floats(0, 1), st.integers(0, 5000), st.floats(0.001, 10), st.floats(0.001, 100))
def test_a_wait_lies_between_half_its_length_and_all_of_it(
    spread: float, tries: int, first_s: float, most_s: float
) -> None:
    """Whatever chance says and however often it was tried, a wait is bounded on both sides."""
    spread_out = Backoff(first_s=first_s, most_s=most_s, spread=lambda: spread, tries=tries)
    nominal_s = Backoff(first_s=first_s, most_s=most_s, spread=lambda: 1.0, tries=tries).next_s()
    assert 0 < nominal_s <= most_s
    assert nominal_s / 2 <= spread_out.next_s() <= nominal_s


def test_many_clients_do_not_come_back_at_once() -> None:
    """Chance spreads the waits unless told otherwise."""
    assert len({Backoff().next_s() for _ in range(20)}) > 1
