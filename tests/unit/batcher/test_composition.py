"""Which jobs run together: against every partition there is where that can be tried, else against simpler ways."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.composition import PADDING_PRICE, by_cost
from batcher.cost import Cost
from batcher.waiting import Waiting

FREE = Cost(tau0_ms=0, row_ms=0, token_ms=0, token_length_ms=0)
RUNS = Cost(tau0_ms=1, row_ms=0, token_ms=0, token_length_ms=0)
TOKENS = Cost(tau0_ms=0, row_ms=0, token_ms=1, token_length_ms=0)
BOTH = Cost(tau0_ms=10, row_ms=0, token_ms=1, token_length_ms=0)

coefficient = st.one_of(st.just(0.0), st.floats(0.001, 100))
costs = st.builds(
    Cost, tau0_ms=coefficient, row_ms=coefficient, token_ms=coefficient, token_length_ms=coefficient
)
lengths = st.integers(1, 80)
max_rows = st.integers(1, 20)
max_tokens = st.integers(1, 500)


def _jobs(of: Sequence[int]) -> list[Waiting]:
    return [
        Waiting(job_id=str(number), length=length, arrived_s=number, budget_s=number)
        for number, length in enumerate(of)
    ]


def _lengths(groups: Sequence[Sequence[Waiting]]) -> list[list[int]]:
    return [[job.length for job in group] for group in groups]


def _group_ms(group: Sequence[int], cost: Cost) -> float:
    """What a group is taken to cost: its predicted time, and the price of its padding."""
    longest = max(group)
    padding = len(group) * longest - sum(group)
    return cost.batch_ms(len(group), longest) + PADDING_PRICE * padding * cost.token_cost_ms(longest)


def _total_ms(groups: Sequence[Sequence[int]], cost: Cost) -> float:
    return sum(_group_ms(group, cost) for group in groups)


def _fits(group: Sequence[int], rows: int, tokens: int) -> bool:
    return len(group) == 1 or (len(group) <= rows and len(group) * max(group) <= tokens)


def _partitions(of: list[int]) -> Iterator[list[list[int]]]:
    """Every way to put the lengths into groups, like lengths apart or together in any way."""
    if not of:
        yield []
        return
    for rest in _partitions(of[1:]):
        yield [[of[0]], *rest]
        for number, group in enumerate(rest):
            yield [*rest[:number], [of[0], *group], *rest[number + 1 :]]


def _cut_at(of: Sequence[int], rows: int, tokens: int) -> list[list[int]]:
    """Cut as soon as the next one does not fit."""
    groups: list[list[int]] = []
    for length in of:
        if groups and _fits([*groups[-1], length], rows, tokens):
            groups[-1].append(length)
        else:
            groups.append([length])
    return groups


@pytest.mark.parametrize(
    ("cost", "of", "rows", "tokens", "groups"),
    [
        (BOTH, [], 4, 100, []),
        (BOTH, [5], 4, 100, [[5]]),
        # Five tokens of padding, at four fifths more than others, are cheaper than a run, six are not.
        (BOTH, [10, 5], 4, 100, [[5, 10]]),
        (BOTH, [11, 5], 4, 100, [[5], [11]]),
        (BOTH, [30, 9, 31, 10, 32, 8], 4, 100, [[8, 9, 10], [30, 31, 32]]),
        # What nothing tells apart is put together, as far as it fits.
        (FREE, [1, 2, 3, 4, 5], 4, 100, [[1], [2, 3, 4, 5]]),
        (RUNS, [1, 2, 3, 4, 5, 6], 4, 100, [[1, 2], [3, 4, 5, 6]]),
        (TOKENS, [3, 3, 3], 4, 100, [[3, 3, 3]]),
        (TOKENS, [3, 4], 4, 100, [[3], [4]]),
        # The bounds: rows, tokens with their padding, and what is too long for any batch.
        (RUNS, [1, 1, 1], 1, 100, [[1], [1], [1]]),
        (RUNS, [10, 10, 10], 4, 30, [[10, 10, 10]]),
        (RUNS, [10, 10, 11], 4, 30, [[10], [10, 11]]),
        (RUNS, [99, 5, 5], 4, 30, [[5, 5], [99]]),
        (RUNS, [99, 99], 4, 30, [[99], [99]]),
    ],
)
def test_groups(cost: Cost, of: list[int], rows: int, tokens: int, groups: list[list[int]]) -> None:
    """Each table row: what a run and a token cost decides what is padded and what is cut."""
    assert _lengths(by_cost(_jobs(of), cost, rows, tokens)) == groups


@given(st.lists(lengths, max_size=70), costs, max_rows, max_tokens)
def test_the_groups_are_a_partition_within_the_bounds(
    of: list[int], cost: Cost, rows: int, tokens: int
) -> None:
    """Each job is in one group, the groups and their jobs go up by length, and only a job alone may be too long."""
    jobs = _jobs(of)
    groups = by_cost(jobs, cost, rows, tokens)
    assert sorted((job.job_id for group in groups for job in group), key=int) == [job.job_id for job in jobs]
    assert [length for group in _lengths(groups) for length in group] == sorted(of)
    assert all(group and _fits(group, rows, tokens) for group in _lengths(groups))


@given(st.lists(lengths, min_size=1, max_size=6), costs, st.integers(1, 7), st.integers(1, 200))
def test_no_partition_is_cheaper(of: list[int], cost: Cost, rows: int, tokens: int) -> None:
    """Not even one whose groups are not neighbours by length."""
    best = min(
        _total_ms(groups, cost)
        for groups in _partitions(of)
        if all(_fits(group, rows, tokens) for group in groups)
    )
    assert _total_ms(_lengths(by_cost(_jobs(of), cost, rows, tokens)), cost) == pytest.approx(best)


@given(st.lists(lengths, max_size=70), costs, max_rows, max_tokens)
def test_no_simpler_way_is_cheaper(of: list[int], cost: Cost, rows: int, tokens: int) -> None:
    """In the order of arrival, or sorted and cut when full: at most as good, on windows of any size."""
    mine = _total_ms(_lengths(by_cost(_jobs(of), cost, rows, tokens)), cost)
    for order in (of, sorted(of), sorted(of, reverse=True)):
        assert mine <= _total_ms(_cut_at(order, rows, tokens), cost) * (1 + 1e-9)
    assert mine <= _total_ms([[length] for length in of], cost) * (1 + 1e-9)


@given(st.lists(lengths, min_size=1, max_size=60), costs, max_rows)
def test_the_search_from_the_start_before_loses_nothing(of: list[int], cost: Cost, rows: int) -> None:
    """The best start never falls from prefix to prefix: a search of all starts finds nothing cheaper."""
    ordered, best = sorted(of), [0.0]
    for end in range(1, len(ordered) + 1):
        best.append(
            min(best[start] + _group_ms(ordered[start:end], cost) for start in range(max(0, end - rows), end))
        )
    mine = _total_ms(_lengths(by_cost(_jobs(of), cost, rows, 10**6)), cost)
    assert mine == pytest.approx(best[-1])
