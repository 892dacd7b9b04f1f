"""The jobs that a batcher holds: order, turns, equals, and the place of suspects."""

from collections.abc import Iterable
from math import inf

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from batcher.waiting import Waiting
from batcher.window import BULK_EVERY, BULK_PATIENCE_S, SUSPECT_EVERY, Window


def job(
    name: str,
    *,
    arrived_s: float = 0.0,
    budget_s: float = 1.0,
    due_s: float = inf,
    key: str | None = None,
    bulk: bool = False,
    suspect: bool = False,
) -> Waiting:
    return Waiting(
        job_id=name,
        length=8,
        arrived_s=arrived_s,
        budget_s=budget_s,
        due_s=due_s,
        key=key,
        interactive=not bulk,
        suspect=suspect,
    )


def _window(*jobs: Waiting) -> Window[Waiting]:
    window: Window[Waiting] = Window()
    for one in jobs:
        window.add(one)
    return window


def _ids(jobs: Iterable[Waiting]) -> list[str]:
    return [one.job_id for one in jobs]


def test_an_empty_window() -> None:
    """Nothing waits, nothing has its turn."""
    window = _window()
    assert (len(window), window.suspects, window.interactive, window.jobs) == (0, 0, 0, [])
    assert list(window.timed) == []
    assert window.rows(bulk=False) == window.rows(bulk=True) == []
    assert window.next_suspect() is None
    assert not window.bulk_turn(1e9)
    assert window.get("a") is None


def test_each_kind_keeps_the_order_of_arrival() -> None:
    """Interactive jobs, bulk jobs and suspects are counted and shown apart."""
    window = _window(job("b1", bulk=True), job("i1"), job("s", suspect=True), job("b2", bulk=True), job("i2"))
    assert _ids(window.jobs) == ["i1", "i2", "b1", "b2", "s"]
    assert (len(window), window.interactive, window.suspects) == (4, 2, 1)
    assert _ids(window.waiting(bulk=False)) == _ids(window.rows(bulk=False)) == ["i1", "i2"]
    assert _ids(window.waiting(bulk=True)) == _ids(window.rows(bulk=True)) == ["b1", "b2"]


@pytest.mark.parametrize(
    "one",
    [
        job("a"),
        job("a", bulk=True),
        job("a", suspect=True),
        job("a", key="k"),
        job("a", key="k", suspect=True),
        job("a", due_s=5.0),
        job("a", due_s=5.0, suspect=True),
    ],
    ids=["interactive", "bulk", "suspect", "with equals", "suspect with key", "timed", "timed suspect"],
)
def test_a_job_is_found_and_let_go(one: Waiting) -> None:
    """Wherever it waits; letting go of what is not here changes nothing."""
    other = job("x", key="k")
    window = _window(other, one)
    assert window.get("a") is one
    window.remove(one)
    window.remove(one)
    assert window.get("a") is None
    assert _ids(window.jobs) == ["x"]
    assert list(window.timed) == []
    assert window.alike(one) == ([other] if one.key else [])
    assert window.alike(other) == []


# Equal inputs.


def test_of_equal_jobs_the_most_urgent_is_the_row() -> None:
    """The others of its kind are left out; those of the other kind are another matter."""
    first, urgent, late = (job(f"k{n}", key="k", budget_s=budget) for n, budget in enumerate((2, 1, 3)))
    bulk = job("b", key="k", bulk=True, budget_s=0)
    window = _window(first, job("x"), urgent, late, bulk, job("y", key="y"))
    assert _ids(window.rows(bulk=False)) == ["k1", "x", "y"]
    assert _ids(window.rows(bulk=True)) == ["b"]
    assert _ids(window.alike(urgent)) == ["k0", "k2", "b"]


def test_of_equally_urgent_twins_the_first_is_the_row() -> None:
    """A later one changes nothing."""
    window = _window(job("a", key="k"), job("b", key="k"))
    assert _ids(window.rows(bulk=False)) == ["a"]


def test_jobs_without_a_key_have_no_equals() -> None:
    """Each is run by itself, whatever its input is."""
    window = _window(job("a"), job("b"), job("k", key="k"))
    assert _ids(window.rows(bulk=False)) == ["a", "b", "k"]
    assert window.alike(job("a")) == []


def test_a_suspect_is_nobodys_twin() -> None:
    """It would take its equals down with it."""
    suspect = job("s", key="k", suspect=True)
    window = _window(suspect, job("a", key="k"))
    assert window.alike(window.rows(bulk=False)[0]) == []


def test_a_batch_takes_its_twins_along() -> None:
    """Of both kinds."""
    row, twin, bulk = job("a", key="k"), job("b", key="k"), job("c", key="k", bulk=True)
    window = _window(row, twin, bulk, job("x"))
    window.take([row], [twin, bulk])
    assert _ids(window.jobs) == ["x"]


# Turns.


def _pass(window: Window[Waiting], batches: int, *, bulk: bool = False) -> None:
    for number in range(batches):
        one = job(f"passing{number}", bulk=bulk)
        window.add(one)
        window.take([one])


@pytest.mark.parametrize(
    ("batches", "waited_s", "turn"),
    [
        (BULK_EVERY, BULK_PATIENCE_S, True),
        (BULK_EVERY - 1, BULK_PATIENCE_S, False),
        (BULK_EVERY, BULK_PATIENCE_S - 0.01, False),
        (99, 99.0, True),
    ],
)
def test_bulk_has_its_turn_after_patience_and_some_batches(batches: int, waited_s: float, turn: bool) -> None:
    """Both: the oldest has waited, and enough batches of others have gone."""
    window = _window(job("b", bulk=True), job("later", bulk=True, arrived_s=50.0))
    _pass(window, batches)
    assert window.bulk_turn(waited_s) is turn


def test_a_bulk_batch_ends_the_turn() -> None:
    """Its rows say whose batch it is: interactive twins that ride along do not keep the turn; neither does a bulk
    batch that was begun earlier and gets its lane."""
    window = _window(job("b1", bulk=True), job("b2", bulk=True, key="k"), job("i", key="k"))
    _pass(window, BULK_EVERY)
    window.bulk_went()
    assert not window.bulk_turn(99.0)
    _pass(window, BULK_EVERY)
    assert window.bulk_turn(99.0)
    b2, i = window.get("b2"), window.get("i")
    assert b2 is not None
    assert i is not None
    window.take([b2], [i])
    assert not window.bulk_turn(99.0)
    _pass(window, BULK_EVERY)
    assert window.bulk_turn(99.0)


def test_a_suspect_runs_at_once_when_nothing_else_waits() -> None:
    """There is no neighbour to spare."""
    suspect = job("s", suspect=True)
    window = _window(suspect)
    assert window.next_suspect() is suspect
    window.take_suspect(suspect)
    assert window.suspects == 0


def test_a_suspect_lets_some_batches_pass_and_no_more() -> None:
    """It waits for exactly `SUSPECT_EVERY` batches of its neighbours, and the next suspect for as many again."""
    window = _window(job("s1", suspect=True), job("s2", suspect=True))
    turns = []
    for number in range(2 * SUSPECT_EVERY + 2):
        one = job(f"n{number}")
        window.add(one)
        suspect = window.next_suspect()
        if suspect is None:
            window.take([one])
            turns.append("batch")
        else:
            window.take_suspect(suspect)
            turns.append(suspect.job_id)
    assert turns == [*["batch"] * SUSPECT_EVERY, "s1", *["batch"] * SUSPECT_EVERY, "s2"]


class AnyCourse(RuleBasedStateMachine):
    """A window beside a plain list of what was put in, through any course of events."""

    def __init__(self) -> None:
        super().__init__()
        self.window: Window[Waiting] = Window()
        self.held: list[Waiting] = []
        self.number = 0
        self.passed = 0

    @rule(
        bulk=st.booleans(),
        suspect=st.booleans(),
        key=st.sampled_from([None, "k", "l"]),
        budget=st.integers(0, 3),
        timed=st.booleans(),
    )
    def add(self, bulk: bool, suspect: bool, key: str | None, budget: int, timed: bool) -> None:
        """A job arrives, or comes back as a suspect."""
        self.number += 1
        due_s = budget if timed else inf
        one = job(str(self.number), bulk=bulk, suspect=suspect, key=key, budget_s=budget, due_s=due_s)
        self.window.add(one)
        self.held.append(one)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """A job was cancelled, say."""
        one = data.draw(st.sampled_from(self.held))
        self.window.remove(one)
        self.held.remove(one)

    @rule(bulk=st.booleans(), most=st.integers(1, 3))
    def run(self, bulk: bool, most: int) -> None:
        """The engine is free: a suspect whose turn it is, else some rows with their equals."""
        suspects = [one for one in self.held if one.suspect]
        ordinary = [one for one in self.held if not one.suspect]
        suspect = self.window.next_suspect()
        if suspect is not None:
            assert suspect is suspects[0]
            assert not ordinary or self.passed >= SUSPECT_EVERY
            self.window.take_suspect(suspect)
            self.held.remove(suspect)
            self.passed = 0
            return
        assert not suspects or (ordinary and self.passed < SUSPECT_EVERY)
        jobs = self.window.rows(bulk=bulk)[:most]
        if jobs:
            twins = [twin for one in jobs for twin in self.window.alike(one)]
            assert len({id(one) for one in (*jobs, *twins)}) == len(jobs) + len(twins)
            self.window.take(jobs, twins)
            self.held = [one for one in self.held if one not in (*jobs, *twins)]
            self.passed += 1

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        """What the window shows is what was put in and not yet taken."""
        ordinary = [one for one in self.held if not one.suspect]
        assert sorted(map(id, self.window.jobs)) == sorted(map(id, self.held))
        assert len(self.window) == len(ordinary)
        assert self.window.suspects == len(self.held) - len(ordinary)
        assert self.window.interactive == sum(one.interactive for one in ordinary)
        assert set(self.window.timed) == {one for one in self.held if one.due_s < inf}
        assert all(self.window.get(one.job_id) is one for one in self.held)

    @invariant()
    def each_input_is_one_row(self) -> None:
        """Every job is a row or the twin of one that is at least as urgent."""
        for bulk in (False, True):
            kind = [one for one in self.held if not one.suspect and one.interactive is not bulk]
            rows = self.window.rows(bulk=bulk)
            keys = [one.key for one in rows if one.key is not None]
            assert len(set(keys)) == len(keys)
            for one in kind:
                assert one in rows or any(
                    row.key == one.key and row.budget_s <= one.budget_s and one in self.window.alike(row)
                    for row in rows
                )


TestAnyCourse = AnyCourse.TestCase
TestAnyCourse.settings = hypothesis_settings(max_examples=50, stateful_step_count=30)
