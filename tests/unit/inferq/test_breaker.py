"""The circuit breaker on a clock of the test's own: its table, and what holds whatever happens."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.breaker import Breaker, Limits, State

LIMITS = Limits(failures=5, open_ms=30_000, successes=2, probes=2)
REST_S = 30.0


def let_in(breaker: Breaker, now_s: float) -> int:
    """Get in."""
    ticket = breaker.let_in(now_s)
    assert ticket is not None
    return ticket


def fail(breaker: Breaker, times: int = 1, now_s: float = 0.0) -> None:
    """Fail, one after the other."""
    for _ in range(times):
        breaker.failed(let_in(breaker, now_s), now_s)


def succeed(breaker: Breaker, times: int = 1, now_s: float = 0.0) -> None:
    """Succeed, one after the other."""
    for _ in range(times):
        breaker.succeeded(let_in(breaker, now_s), now_s)


def opened(now_s: float = 0.0) -> Breaker:
    """Return a breaker that has just opened."""
    breaker = Breaker(LIMITS)
    fail(breaker, 5, now_s)
    return breaker


@dataclass(frozen=True, kw_only=True)
class Case:
    """What happens, as words: f ails, s ucceeds, a number waits so many seconds, + is a sign of life."""

    course: str
    state: State
    refuses: bool = False
    failures: int = 0
    successes: int = 0


CASES = {
    "new": Case(course="", state=State.CLOSED),
    "four failures": Case(course="ffff", state=State.CLOSED, failures=4),
    "five failures": Case(course="fffff", state=State.OPEN, refuses=True, failures=5),
    "not in a row": Case(course="ffffsffff", state=State.CLOSED, failures=8, successes=1),
    "five in a row after all": Case(
        course="ffffsfffff", state=State.OPEN, refuses=True, failures=9, successes=1
    ),
    "nearly rested": Case(course="fffff 29.9", state=State.OPEN, refuses=True, failures=5),
    "rested": Case(course="fffff 30", state=State.HALF_OPEN, failures=5),
    "one good one": Case(course="fffff 30 s", state=State.HALF_OPEN, failures=5, successes=1),
    "two good ones": Case(course="fffff 30 ss", state=State.CLOSED, failures=5, successes=2),
    "any failure there": Case(course="fffff 30 sf", state=State.OPEN, refuses=True, failures=6, successes=1),
    "a whole rest again": Case(course="fffff 30 f 29.9", state=State.OPEN, refuses=True, failures=6),
    "closed counts anew": Case(course="fffff 30 ss ffff", state=State.CLOSED, failures=9, successes=2),
    "a sign of life": Case(course="fffff 1 +", state=State.HALF_OPEN, failures=5),
    "a sign that was right": Case(course="fffff 1 + ss", state=State.CLOSED, failures=5, successes=2),
    "a sign that was wrong": Case(course="fffff 1 + f", state=State.OPEN, refuses=True, failures=6),
    "no further sign is heeded": Case(course="fffff 1 + f 1 +", state=State.OPEN, refuses=True, failures=6),
    "but a whole rest ends it": Case(course="fffff 1 + f 30", state=State.HALF_OPEN, failures=6),
    "and signs count again": Case(course="fffff 1 + f 30 f 1 +", state=State.HALF_OPEN, failures=7),
    "as they do after it closed": Case(
        course="fffff 1 + f 30 ss fffff +", state=State.HALF_OPEN, failures=11, successes=2
    ),
    "a sign while it is closed": Case(course="ffff + f", state=State.OPEN, refuses=True, failures=5),
    "a sign while it is half-open": Case(
        course="fffff 30 s + s", state=State.CLOSED, failures=5, successes=2
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_becomes_of_it(case: Case) -> None:
    """Each course of events leads to one state, and to whether the next call is let in."""
    breaker, now_s = Breaker(LIMITS), 0.0
    for word in case.course.split():
        if word[0].isdigit():
            now_s += float(word)
            continue
        for event in word:
            if event == "+":
                breaker.sign_of_life(now_s)
            elif event == "f":
                fail(breaker, now_s=now_s)
            else:
                succeed(breaker, now_s=now_s)
    assert breaker.state(now_s) is case.state
    assert (breaker.failures, breaker.successes) == (case.failures, case.successes)
    assert (breaker.let_in(now_s) is None) is case.refuses


def test_failures_of_those_who_were_under_way_together_are_one() -> None:
    """A hundred calls that fail at once count once; what succeeds of them does not make the failure undone."""
    breaker = Breaker(LIMITS)
    tickets = [let_in(breaker, 0.0) for _ in range(100)]
    for ticket in tickets[:-1]:
        breaker.failed(ticket, 1.0)
    breaker.succeeded(tickets[-1], 1.0)
    assert (breaker.failures, breaker.failures_left()) == (1, 4)
    fail(breaker, 4, 1.0)
    assert breaker.state(1.0) is State.OPEN


def test_what_comes_late_counts_for_nothing() -> None:
    """Answers to calls that were let in before it opened change nothing, when it is open, half-open or closed again."""
    breaker = Breaker(LIMITS)
    early = [let_in(breaker, 0.0) for _ in range(9)]
    fail(breaker, 5)
    for now_s, turn in ((1.0, State.OPEN), (REST_S, State.HALF_OPEN)):
        probe = breaker.let_in(now_s)
        breaker.succeeded(early.pop(), now_s)
        breaker.failed(early.pop(), now_s)
        breaker.left(early.pop())
        assert breaker.state(now_s) is turn
        assert (breaker.failures, breaker.successes) == (5, 0)
    assert probe is not None
    breaker.succeeded(probe, REST_S)
    succeed(breaker, now_s=REST_S)
    breaker.failed(early.pop(), REST_S)
    assert breaker.failures_left() == LIMITS.failures


def test_half_open_lets_so_many_in_at_a_time() -> None:
    """Two places; each is free again when its call has come back, be that with nothing."""
    breaker = opened()
    first, second = let_in(breaker, REST_S), let_in(breaker, REST_S)
    assert breaker.let_in(REST_S) is None
    breaker.left(first)
    third = let_in(breaker, REST_S)
    assert breaker.let_in(REST_S) is None
    breaker.succeeded(second, REST_S)
    breaker.succeeded(third, REST_S)
    assert breaker.state(REST_S) is State.CLOSED


def test_the_second_of_two_probes_is_late_when_the_first_has_failed() -> None:
    """The state was decided without it."""
    breaker = opened()
    first, second = let_in(breaker, REST_S), let_in(breaker, REST_S)
    breaker.failed(first, REST_S)
    breaker.succeeded(second, REST_S)
    assert breaker.state(REST_S) is State.OPEN
    assert breaker.successes == 0


def test_places_of_probes_that_never_come_back_are_free_after_a_rest() -> None:
    """Who forgets to bring a ticket back shuts nobody out for ever, and is late when it comes."""
    breaker = opened()
    lost = [let_in(breaker, REST_S) for _ in range(2)]
    assert breaker.let_in(2 * REST_S - 0.1) is None
    succeed(breaker, 2, 2 * REST_S)
    assert breaker.state(2 * REST_S) is State.CLOSED
    breaker.failed(lost[0], 2 * REST_S)
    assert breaker.failures == 5


def test_it_says_when_it_half_opens_and_how_much_is_left() -> None:
    """The rest of its rest, and how many failures are missing."""
    breaker = Breaker(LIMITS)
    assert (breaker.half_open_in_s(0.0), breaker.failures_left()) == (0.0, 5)
    fail(breaker, 4)
    assert breaker.failures_left() == 1
    fail(breaker)
    assert (breaker.half_open_in_s(10.0), breaker.failures_left()) == (20.0, 0)
    assert breaker.half_open_in_s(40.0) == 0.0
    let_in(breaker, 40.0)
    assert (breaker.half_open_in_s(40.0), breaker.failures_left()) == (0.0, 1)
    assert breaker.opened == 1


@dataclass
class Watched:
    """A breaker, and what a test knows of it: who is under way, and how it turned."""

    breaker: Breaker
    limits: Limits
    now_s: float = 0.0
    out: list[int] = field(default_factory=list)
    turned: list[State] = field(default_factory=lambda: [State.CLOSED])

    @property
    def state(self) -> State:
        """Its state."""
        return self.breaker.state(self.now_s)

    def let_in(self) -> None:
        """Ask to get in, and check that nobody does whom it must refuse, or is refused whom it must not."""
        before = self.state
        ticket = self.breaker.let_in(self.now_s)
        if ticket is None:
            assert before is not State.CLOSED
            return
        assert before is not State.OPEN
        self.out.append(ticket)
        if before is State.HALF_OPEN:
            assert self.out.count(ticket) <= self.limits.probes

    def happens(self, event: str, number: int) -> None:
        """Let one thing happen, and note a change of state."""
        if event == "in":
            self.let_in()
        elif event == "sign":
            self.breaker.sign_of_life(self.now_s)
        elif event == "wait":
            self.now_s += number
        elif self.out:
            ticket = self.out.pop(number % len(self.out))
            if event == "left":
                self.breaker.left(ticket)
            else:
                outcome = self.breaker.succeeded if event == "ok" else self.breaker.failed
                outcome(ticket, self.now_s)
        if self.state is not self.turned[-1]:
            self.turned.append(self.state)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "ok", "ok", "bad", "bad", "bad", "left", "sign", "wait"]),
        st.integers(0, 9),
    ),
    max_size=200,
)
LIMITED = st.builds(
    Limits,
    failures=st.integers(1, 4),
    open_ms=st.integers(1_000, 9_000),
    successes=st.integers(1, 3),
    probes=st.integers(1, 3),
)
ALLOWED = {
    (State.CLOSED, State.OPEN),
    (State.OPEN, State.HALF_OPEN),
    (State.HALF_OPEN, State.OPEN),
    (State.HALF_OPEN, State.CLOSED),
}


@given(limits=LIMITED, events=EVENTS)
def test_whatever_happens_it_keeps_to_its_table(limits: Limits, events: list[tuple[str, int]]) -> None:
    """It turns only as drawn, lets nobody in while it is open, and never too many while it is half-open."""
    seen = Watched(Breaker(limits), limits)
    breaker = seen.breaker
    for event, number in events:
        before, failures = seen.state, breaker.failures
        seen.happens(event, number)
        assert breaker.failures - failures in (0, 1)
        if before is State.CLOSED and seen.state is State.OPEN:
            assert event == "bad"
        if seen.state is State.CLOSED:
            assert 1 <= breaker.failures_left() <= limits.failures
        # But for what is lost where a moment is added and taken away again.
        assert breaker.half_open_in_s(seen.now_s) <= limits.open_ms / 1000 + 1e-6
    turns = list(zip(seen.turned, seen.turned[1:], strict=False))
    assert set(turns) <= ALLOWED
    assert breaker.opened >= sum(after is State.OPEN for _, after in turns)


@given(limits=LIMITED, courses=st.lists(st.booleans(), max_size=40))
def test_one_by_one_it_opens_after_so_many_failures_in_a_row(limits: Limits, courses: list[bool]) -> None:
    """With calls one after the other it is closed exactly until the first row of so many failures is complete."""
    breaker, row, open_ = Breaker(limits), 0, False
    for good in courses:
        ticket = breaker.let_in(0.0)
        assert (ticket is None) is open_
        if ticket is None:
            continue
        if good:
            row = 0
            breaker.succeeded(ticket, 0.0)
        else:
            row += 1
            breaker.failed(ticket, 0.0)
        open_ = row >= limits.failures
        assert (breaker.state(0.0) is State.OPEN) is open_


@given(limits=LIMITED, events=EVENTS)
def test_it_can_always_be_closed_again(limits: Limits, events: list[tuple[str, int]]) -> None:
    """Whatever came before, forgotten tickets included: two rests later, so many successes close it."""
    breaker, now_s = Breaker(limits), 0.0
    for event, number in events:
        if event == "wait":
            now_s += number
        elif (ticket := breaker.let_in(now_s)) is not None and event == "bad":
            breaker.failed(ticket, now_s)
    now_s += 2 * limits.open_ms / 1000
    for _ in range(limits.successes):
        ticket = breaker.let_in(now_s)
        assert ticket is not None
        breaker.succeeded(ticket, now_s)
    assert breaker.state(now_s) is State.CLOSED
