"""The jobs that a batcher holds: order, limits, and the place of suspects."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from batcher.window import PATIENCE, Item, Window
from inferq.jobs import Job, Priority
from inferq.steps import Origin

MAX_SIZE = 4
MAX_TOKENS = 20


def item(
    name: str,
    *,
    tokens: int = 1,
    priority: Priority = Priority.INTERACTIVE,
    arrived_s: float = 0.0,
    suspect: bool = False,
) -> Item:
    """Return an item with as many tokens as told."""
    job = Job(job_id=name, model="m", text="t", created_ms=0, priority=priority)
    return Item(
        origin=Origin(job=job, queue="q", message=b""),
        deliveries=[],
        ids=range(tokens),
        truncated=False,
        arrived_s=arrived_s,
        arrived_ms=0.0,
        tokenize_ms=0.0,
        suspect=suspect,
    )


def _window(*items: Item) -> Window:
    window = Window(max_batch_size=MAX_SIZE, max_batch_tokens=MAX_TOKENS)
    for one in items:
        window.add(one)
    return window


def _ids(items: Sequence[Item]) -> list[str]:
    return [one.job_id for one in items]


def test_an_empty_window() -> None:
    """Nothing waits, nothing is taken."""
    window = _window()
    assert (len(window), window.suspects, window.items, window.oldest_at_s) == (0, 0, [], 0.0)
    assert not window.tokens_full
    assert window.take() == []
    assert window.take_suspect() is None
    assert window.get("a") is None


def test_interactive_before_bulk_and_each_in_the_order_of_arrival() -> None:
    """A bulk job that came first still goes after the interactive ones."""
    window = _window(
        item("b1", priority=Priority.BULK),
        item("i1"),
        item("b2", priority=Priority.BULK),
        item("i2"),
        item("i3"),
    )
    assert _ids(window.items) == ["i1", "i2", "i3", "b1", "b2"]
    assert _ids(window.take()) == ["i1", "i2", "i3", "b1"]
    assert _ids(window.take()) == ["b2"]


@pytest.mark.parametrize(
    ("tokens", "batches", "tokens_full"),
    [
        ([1], [1], False),
        ([5, 5, 5, 5], [4], False),
        ([5, 5, 5, 5, 1], [4, 1], False),
        ([6, 6, 6], [3], False),
        ([7, 7, 7], [2, 1], True),
        ([1, 1, 1, 6], [3, 1], True),
        ([6, 1, 1, 1], [3, 1], True),
        ([10, 10], [2], False),
        ([11, 10], [1, 1], True),
        ([10, 11], [1, 1], True),
        ([20, 1], [1, 1], True),
        ([99], [1], False),
        ([99, 1, 1], [1, 2], True),
        ([1, 99, 1], [1, 1, 1], True),
    ],
)
def test_a_batch_ends_at_its_limits(tokens: list[int], batches: list[int], tokens_full: bool) -> None:
    """Four jobs, or 20 tokens with the padding counted; what alone is longer runs alone."""
    window = _window(*(item(str(number), tokens=count) for number, count in enumerate(tokens)))
    assert window.tokens_full is tokens_full
    taken = []
    while len(window):
        taken.append(len(window.take()))
    assert taken == batches


def test_the_oldest_arrival_is_that_of_either_lane() -> None:
    """A bulk job that has waited opens the window, too; suspects have their own turn."""
    window = _window(
        item("i", arrived_s=5.0),
        item("b", arrived_s=3.0, priority=Priority.BULK),
        item("s", arrived_s=1.0, suspect=True),
    )
    assert window.oldest_at_s == 3.0


@pytest.mark.parametrize(
    "one",
    [item("a"), item("a", priority=Priority.BULK), item("a", suspect=True)],
    ids=["interactive", "bulk", "suspect"],
)
def test_an_item_is_found_and_let_go(one: Item) -> None:
    """Wherever it waits; letting go of what is not here changes nothing."""
    window = _window(item("x"), one)
    assert window.get("a") is one
    window.remove(one)
    window.remove(one)
    assert window.get("a") is None
    assert _ids(window.items) == ["x"]


def test_a_suspect_runs_at_once_when_nothing_else_waits() -> None:
    """There is no neighbour to spare, and it runs alone."""
    suspect = item("s", suspect=True)
    window = _window(suspect)
    assert (len(window), window.suspects) == (0, 1)
    assert window.take() == []
    assert window.take_suspect() is suspect
    assert window.suspects == 0


def test_a_suspect_lets_some_batches_pass_and_no_more() -> None:
    """It waits for exactly `PATIENCE` batches of its neighbours, and the next suspect for as many again."""
    window = _window(item("s1", suspect=True), item("s2", suspect=True))
    turns = []
    for number in range(2 * PATIENCE + 2):
        window.add(item(f"n{number}"))
        suspect = window.take_suspect()
        turns.append(suspect.job_id if suspect else "batch")
        if suspect is None:
            window.take()
    assert turns == [*["batch"] * PATIENCE, "s1", *["batch"] * PATIENCE, "s2"]


def test_no_batch_holds_a_suspect() -> None:
    """Its neighbours do not pay for it."""
    window = _window(item("s", suspect=True), item("n"))
    assert _ids(window.take()) == ["n"]
    assert _ids(window.items) == ["s"]


_items = st.lists(
    st.builds(
        lambda number, tokens, priority: item(f"j{number}", tokens=tokens, priority=priority),
        st.integers(),
        st.integers(min_value=1, max_value=30),
        st.sampled_from(Priority),
    ),
    max_size=25,
    unique_by=lambda one: one.job_id,
)


@given(_items, st.integers(1, 8), st.integers(1, 60))
def test_batches_are_runs_of_the_order_and_as_long_as_they_may_be(
    items: list[Item], max_size: int, max_tokens: int
) -> None:
    """Every item is taken once, in order; a batch keeps both limits, and one more item would break one."""
    window = Window(max_batch_size=max_size, max_batch_tokens=max_tokens)
    for one in items:
        window.add(one)
    order = sorted(items, key=lambda one: one.origin.job.priority is Priority.BULK)
    assert window.items == order

    def fits(batch: Sequence[Item]) -> bool:
        padded = len(batch) * max(len(one.ids) for one in batch)
        return len(batch) == 1 or (len(batch) <= max_size and padded <= max_tokens)

    taken: list[Item] = []
    while len(window):
        tokens_full = window.tokens_full
        batch = window.take()
        assert batch
        assert fits(batch)
        taken += batch
        left = len(order) - len(taken)
        if left:
            assert not fits([*batch, order[len(taken)]])
        assert tokens_full == (left > 0 and len(batch) < max_size)
    assert taken == order


class AnyCourse(RuleBasedStateMachine):
    """A window beside a plain list of what was put in, through any course of events."""

    def __init__(self) -> None:
        super().__init__()
        self.window = _window()
        self.held: list[Item] = []
        self.number = 0
        self.passed = 0

    @rule(tokens=st.integers(1, 30), priority=st.sampled_from(Priority), suspect=st.booleans())
    def add(self, tokens: int, priority: Priority, suspect: bool) -> None:
        """A job arrives, or comes back as a suspect."""
        self.number += 1
        one = item(
            str(self.number), tokens=tokens, priority=priority, suspect=suspect, arrived_s=float(self.number)
        )
        self.window.add(one)
        self.held.append(one)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """A job was cancelled, say."""
        one = data.draw(st.sampled_from(self.held))
        self.window.remove(one)
        self.held.remove(one)

    @rule()
    def run(self) -> None:
        """The engine is free: a suspect whose turn it is, else the next batch."""
        ordinary = [one for one in self.held if not one.suspect]
        suspects = [one for one in self.held if one.suspect]
        found = self.window.take_suspect()
        if found is not None:
            assert found is suspects[0]
            assert not ordinary or self.passed >= PATIENCE
            self.held.remove(found)
            self.passed = 0
            return
        assert not suspects or (ordinary and self.passed < PATIENCE)
        if not ordinary:
            return
        batch = self.window.take()
        assert batch
        assert not any(one.suspect for one in batch)
        self.passed += 1
        for one in batch:
            self.held.remove(one)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        """What the window shows is what was put in and not yet taken."""
        ordinary = [one for one in self.held if not one.suspect]
        shown = self.window.items
        assert sorted(map(id, shown)) == sorted(map(id, self.held))
        assert len(self.window) == len(ordinary)
        assert self.window.suspects == len(self.held) - len(ordinary)
        assert self.window.oldest_at_s == min((one.arrived_s for one in ordinary), default=0.0)
        assert all(self.window.get(one.job_id) is one for one in self.held)


TestAnyCourse = AnyCourse.TestCase
TestAnyCourse.settings = hypothesis_settings(max_examples=50, stateful_step_count=30)


def test_only_interactive_jobs_count_as_such() -> None:
    """Bulk jobs and suspects do not make a batch full of interactive ones."""
    window = _window(item("i1"), item("b1", priority=Priority.BULK), item("s1", suspect=True), item("i2"))
    assert window.interactive == 2
