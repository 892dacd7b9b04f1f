"""Who gets the engine's lanes, and when the next one is free."""

from collections.abc import Sequence
from math import inf

import pytest

from batcher.lanes import Lanes, Rank, Turn
from batcher.policy import CloseReason
from batcher.waiting import Waiting
from batcher.window import BULK_PATIENCE_S

PART, INTERACTIVE, BULK = Rank
MS = 100.0


def turn(
    rank: Rank = INTERACTIVE,
    *,
    ready: bool = True,
    every_lane: bool = False,
    begun_s: float = 0.0,
    length: int = 8,
) -> Turn[Waiting]:
    return Turn(
        jobs=[Waiting(job_id="a", length=length, arrived_s=0, budget_s=1, interactive=rank is not BULK)],
        twins=[],
        reason=CloseReason.GREEDY,
        rank=rank,
        bulk=rank is BULK,
        begun_s=begun_s,
        every_lane=every_lane,
        predicted_ms=MS,
        ready=ready,
    )


def _lanes(count: int, *turns: Turn[Waiting]) -> Lanes[Waiting]:
    lanes: Lanes[Waiting] = Lanes(count=count)
    for one in turns:
        lanes.begin(one)
    return lanes


def _granted(
    lanes: Lanes[Waiting], turns: Sequence[Turn[Waiting]], now_s: float = 0.0, *, interactive: bool = False
) -> list[int]:
    return [turns.index(one) for one in lanes.grant(now_s, interactive_waits=interactive)]


@pytest.mark.parametrize(
    ("count", "turns", "granted"),
    [
        (1, [], []),
        (1, [turn()], [0]),
        (1, [turn(), turn()], [0]),
        (2, [turn(), turn(), turn()], [0, 1]),
        # By rank, then in the order of beginning.
        (1, [turn(BULK), turn(), turn(PART)], [2]),
        (3, [turn(BULK), turn(), turn(PART)], [2, 1, 0]),
        (2, [turn(), turn(BULK), turn()], [0, 2]),
        # Who is not ready is overtaken, but not by bulk that would take its lane.
        (1, [turn(ready=False), turn()], [1]),
        (1, [turn(PART, ready=False), turn()], [1]),
        (1, [turn(ready=False), turn(BULK)], []),
        (2, [turn(ready=False), turn(BULK)], [1]),
        (2, [turn(ready=False), turn(ready=False), turn(BULK)], []),
        (2, [turn(ready=False, every_lane=True), turn(BULK)], []),
        (1, [turn(BULK, ready=False), turn(BULK)], [1]),
        # Every lane, or none.
        (2, [turn(every_lane=True), turn()], [0]),
        (2, [turn(), turn(every_lane=True), turn()], [0]),
        (2, [turn(every_lane=True), turn(PART)], [1]),
        (2, [turn(every_lane=True, ready=False), turn()], [1]),
    ],
)
def test_a_free_engine_is_granted(count: int, turns: list[Turn[Waiting]], granted: list[int]) -> None:
    """Each row: lanes, the turns in the order of beginning, and which of them run at once."""
    for one in turns:
        one.running, one.ends_s = False, inf
    assert _granted(_lanes(count, *turns), turns) == granted
    for number, one in enumerate(turns):
        assert one.running is (number in granted)
        assert one.ends_s == (MS / 1000 if one.running else inf)


def test_a_turn_that_needs_every_lane_is_not_overtaken_for_ever() -> None:
    """Once it is ready, whoever runs is waited for, and nobody else begins; then it has the engine for itself."""
    turns = [turn(), turn(), turn(every_lane=True), turn()]
    lanes = _lanes(2, *turns)
    assert _granted(lanes, turns) == [0, 1]
    lanes.off(turns[0])
    assert _granted(lanes, turns) == []
    lanes.off(turns[1])
    assert _granted(lanes, turns) == [2]
    assert _granted(lanes, turns) == []
    lanes.off(turns[2])
    assert _granted(lanes, turns) == [3]


def test_bulk_stands_back_while_interactive_jobs_wait_but_not_for_ever() -> None:
    """After its patience it comes before the interactive ones that were begun after it."""
    bulk, later = turn(BULK, begun_s=1.0), turn(begun_s=2.0)
    turns = [bulk, later]
    lanes = _lanes(1, bulk)
    assert lanes.bulk_begun
    assert _granted(lanes, turns, 1.0 + BULK_PATIENCE_S - 0.01, interactive=True) == []
    assert lanes.before(INTERACTIVE) == []
    lanes.begin(later)
    assert _granted(lanes, turns, 1.0 + BULK_PATIENCE_S, interactive=True) == [0]
    assert bulk.rank is INTERACTIVE
    assert not lanes.bulk_begun


def test_bulk_runs_when_no_interactive_job_waits() -> None:
    """On an idle engine it need not be patient."""
    bulk = turn(BULK)
    assert _granted(_lanes(1, bulk), [bulk]) == [0]


def test_a_turn_goes_off_once() -> None:
    """Noting it twice does no harm, to others neither."""
    one, other = turn(), turn()
    lanes = _lanes(1, one, other)
    lanes.off(one)
    lanes.off(one)
    assert lanes.before(BULK) == [other]


# When the next lane is free. A number is a running turn that ends then.

Shown = float | Turn[Waiting]


def _occupied(count: int, shown: Sequence[Shown], wide_s: float | None = None) -> Lanes[Waiting]:
    lanes = _lanes(count)
    for one in shown:
        if isinstance(one, Turn):
            lanes.begin(one)
        else:
            running = turn()
            running.running, running.ends_s = True, one
            lanes.begin(running)
    if wide_s is not None:
        wide = turn(every_lane=True)
        wide.running, wide.ends_s = True, wide_s
        lanes.begin(wide)
    return lanes


def _begun(rank: Rank = INTERACTIVE, *, every_lane: bool = False) -> Turn[Waiting]:
    return turn(rank, ready=False, every_lane=every_lane)


@pytest.mark.parametrize(
    ("count", "shown", "free"),
    [
        (1, [], (5.0, 1)),
        (3, [], (5.0, 3)),
        (3, [9.0], (5.0, 2)),
        (2, [9.0, _begun()], (9.0, 1)),
        (1, [9.0], (9.0, 1)),
        (2, [9.0, 7.0], (7.0, 1)),
        # Longer than predicted: it may end at any moment.
        (1, [3.0], (5.0, 1)),
        # One ahead takes the first lane, the next one the second, and there are no more.
        (2, [9.0, 7.0, _begun()], (9.0, 1)),
        (2, [9.0, 7.0, _begun(), _begun()], (inf, 0)),
        (1, [9.0, _begun()], (inf, 0)),
        (1, [_begun()], (inf, 0)),
        (2, [_begun(), _begun()], (inf, 0)),
        (2, [_begun(PART)], (5.0, 1)),
        # Who needs every lane comes first, and nothing is begun behind it.
        (2, [_begun(every_lane=True)], (inf, 0)),
        (2, [9.0, _begun(every_lane=True)], (inf, 0)),
        # Begun bulk takes no lane from an interactive batch.
        (1, [_begun(BULK)], (5.0, 1)),
        (1, [9.0, _begun(BULK)], (9.0, 1)),
        (2, [_begun(BULK, every_lane=True), 9.0], (5.0, 1)),
    ],
)
def test_when_the_next_lane_is_free(count: int, shown: list[Shown], free: tuple[float, int]) -> None:
    """For an interactive batch at 5 s: when, and how many lanes are free then."""
    assert _occupied(count, shown).free(5.0, INTERACTIVE) == free


def test_begun_bulk_keeps_its_lane_from_more_bulk() -> None:
    """Otherwise bulk batches would be begun without end."""
    assert _occupied(1, [_begun(BULK)]).free(5.0, BULK) == (inf, 0)
    assert _occupied(2, [_begun(BULK)]).free(5.0, BULK) == (5.0, 1)


def test_all_lanes_are_free_after_a_wide_run() -> None:
    """And one batch may be begun ahead of that, no more."""
    assert _occupied(2, [], wide_s=8.0).free(5.0, INTERACTIVE) == (8.0, 2)
    assert _occupied(2, [], wide_s=4.0).free(5.0, INTERACTIVE) == (5.0, 2)
    assert _occupied(2, [_begun()], wide_s=8.0).free(5.0, INTERACTIVE) == (inf, 0)


@pytest.mark.parametrize(
    ("count", "shown", "wide_s", "first_s"),
    [
        (1, [], None, 5.0),
        (2, [9.0], None, 5.0),
        (2, [9.0, 7.0], None, 7.0),
        (1, [3.0], None, 5.0),
        (1, [9.0, _begun()], None, 9.0),
        (2, [], 8.0, 8.0),
    ],
)
def test_when_a_lane_is_free_at_all(
    count: int, shown: list[Shown], wide_s: float | None, first_s: float
) -> None:
    """At 5 s, whoever gets it."""
    assert _occupied(count, shown, wide_s).first_free_s(5.0) == first_s


def test_the_shape_of_a_turn() -> None:
    """Its rows, and the longest of them."""
    one = turn(length=3)
    one.jobs += turn(length=7).jobs
    assert (one.rows, one.length) == (2, 7)
