"""What is under way in a process is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.gate import MOST_BYTES, MOST_JOBS, Gate


@pytest.mark.parametrize(
    ("jobs", "size", "let_in"),
    [
        (3, 0, True),
        (4, 0, False),
        (0, 60, True),
        (0, 61, False),
        (3, 60, True),
        (3, 61, False),
        (4, 60, False),
    ],
)
def test_both_bounds_hold(jobs: int, size: int, let_in: bool) -> None:
    """Up to each bound and no further; who is refused takes up nothing."""
    gate = Gate(most_jobs=5, most_bytes=100)
    assert gate.enter(2, 40)
    assert gate.enter(jobs, size) is let_in
    assert (gate.jobs, gate.bytes) == ((2 + jobs, 40 + size) if let_in else (2, 40))


def test_a_whole_batch_gets_in_or_none_of_it() -> None:
    """What is left of it is not taken in parts; as its usual bounds are, many batches fit at a time."""
    gate = Gate(most_jobs=300)
    assert gate.enter(256, 0)
    assert not gate.enter(256, 0)
    assert gate.jobs == 256
    gate.leave(256, 0)
    assert gate.enter(256, 0)
    assert (MOST_JOBS // 256, MOST_BYTES // (8 * 1024 * 1024)) >= (8, 8)


@given(
    st.integers(0, 20),
    st.integers(0, 200),
    st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 120)), max_size=40),
)
def test_never_more_than_the_bounds_are_inside(
    most_jobs: int, most_bytes: int, moves: list[tuple[bool, int, int]]
) -> None:
    """However they come and go; it refuses only what does not fit, and all that leave give back what they took."""
    gate = Gate(most_jobs=most_jobs, most_bytes=most_bytes)
    inside: list[tuple[int, int]] = []
    for comes, count, size in moves:
        if comes:
            fits = gate.jobs + count <= most_jobs and gate.bytes + size <= most_bytes
            assert gate.enter(count, size) is fits
            if fits:
                inside.append((count, size))
        elif inside:
            gate.leave(*inside.pop())
        assert gate.jobs == sum(one for one, _ in inside) <= most_jobs
        assert gate.bytes == sum(one for _, one in inside) <= most_bytes
    for one in inside:
        gate.leave(*one)
    assert (gate.jobs, gate.bytes) == (0, 0)
