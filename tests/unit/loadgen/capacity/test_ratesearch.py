"""Which rates a search tries, and what it finds on servers of known capacity."""

from collections.abc import Callable

import pytest

from loadgen.capacity.ratesearch import MOST_TRIES, NARROW, STEP, Probe, RateSearch, Verdict


def searched(
    answer: Callable[[Probe], Verdict], *, first: float = 2000.0, most: float = 64_000.0
) -> RateSearch:
    """Search to the end."""
    search = RateSearch(first=first, most=most)
    for _ in range(MOST_TRIES):
        if (probe := search.next) is None:
            break
        search.tell(answer(probe))
    assert search.next is None
    return search


def up_to(capacity: float, *, lasting: float | None = None) -> Callable[[Probe], Verdict]:
    """Answer as a server does that takes ``capacity`` briefly and ``lasting`` for long."""

    def answer(probe: Probe) -> Verdict:
        bound = capacity if lasting is None or not probe.confirming else lasting
        return Verdict.HELD if probe.rate <= bound else Verdict.FAILED

    return answer


@pytest.mark.parametrize("capacity", [130.0, 1_999.0, 2_000.0, 2_001.0, 5_555.0, 12_345.0, 63_999.0])
def test_the_highest_rate_is_found(capacity: float) -> None:
    """From above as from below the first rate, within the gap, and never above what holds."""
    search = searched(up_to(capacity))
    assert (1 - NARROW) * capacity <= search.confirmed <= capacity
    assert not search.generator_limited


def test_the_order_of_probes() -> None:
    """Doubling, halving the gap, and a long one at the end."""
    tried: list[Probe] = []

    def answer(probe: Probe) -> Verdict:
        tried.append(probe)
        return up_to(5_000.0)(probe)

    searched(answer)
    assert [probe.rate for probe in tried] == [2000, 4000, 8000, 6000, 5000, 5500, 5250, 5000]
    assert [probe.confirming for probe in tried] == [False] * (len(tried) - 1) + [True]


def test_a_server_without_a_bound_stops_at_the_most() -> None:
    """What holds there is confirmed there."""
    search = searched(up_to(float("inf")), most=5_000.0)
    assert search.confirmed == 5_000.0
    assert searched(up_to(float("inf")), first=9_000.0, most=5_000.0).confirmed == 5_000.0


def test_a_rate_that_holds_only_briefly_is_not_the_answer() -> None:
    """It goes down step by step until one holds for long."""
    search = searched(up_to(5_000.0, lasting=4_300.0))
    assert (1 - STEP) * 4_300 * 0.99 <= search.confirmed <= 4_300


def test_where_nothing_holds_nothing_is_found() -> None:
    """Tries are bounded, briefly as for long."""
    assert searched(up_to(0.0)).confirmed == 0
    assert searched(up_to(5_000.0, lasting=0.0)).confirmed == 0


def test_an_invalid_probe_is_made_again() -> None:
    """A rate that is invalid three times is too high for the generator, which the search says."""
    search = RateSearch(first=1000.0, most=64_000.0)
    search.tell(Verdict.INVALID)
    assert search.next == Probe(rate=1000.0, confirming=False)
    search.tell(Verdict.HELD)
    assert search.next == Probe(rate=2000.0, confirming=False)
    search.tell(Verdict.INVALID)
    search.tell(Verdict.INVALID)
    assert not search.generator_limited
    search.tell(Verdict.INVALID)
    assert search.generator_limited
    assert search.next == Probe(rate=1500.0, confirming=False)
    search.tell(Verdict.FAILED)
    assert not search.generator_limited, "the lowest that did not hold is the server's"


def test_a_search_that_is_over_takes_nothing_more() -> None:
    """Nor does it say another probe."""
    search = searched(up_to(5_000.0))
    with pytest.raises(ValueError, match="over"):
        search.tell(Verdict.HELD)
