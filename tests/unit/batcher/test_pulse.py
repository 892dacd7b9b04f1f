"""Whether a batcher moves: on a clock of the test's own."""

import pytest

from batcher.pulse import MOST_STEP_S, Pulse, Sight, stall_limit_s

STALL_S = 10.0


class Watched:
    """A batcher that is looked at once a second."""

    def __init__(self) -> None:
        self.pulse, self.now_s, self.progress = Pulse(stall_s=STALL_S), 100.0, 0

    def look(self, *, in_hand: int = 0, queued: int = 0, excuse: str = "", after_s: float = 1.0) -> str:
        self.now_s += after_s
        sight = Sight(in_hand=in_hand, queued=queued, progress=self.progress, excuse=excuse)
        return self.pulse.look(sight, self.now_s)

    def stands_still(self, seconds: int, *, in_hand: int = 1) -> list[str]:
        return [self.look(in_hand=in_hand) for _ in range(seconds)]


def test_it_is_stuck_once_work_in_hand_has_not_moved_for_too_long() -> None:
    """Just at the limit it is not yet; a second later it is, and says for how long and with what."""
    batcher = Watched()
    assert not any(batcher.stands_still(11, in_hand=3))
    assert batcher.look(in_hand=3) == "nothing has moved for 11 s with 3 jobs in hand"


def test_messages_that_nobody_fetches_count_as_work() -> None:
    """With nothing in hand, but something in its queues."""
    batcher = Watched()
    said = [batcher.look(queued=1) for _ in range(12)]
    assert said == [""] * 11 + ["nothing has moved for 11 s with 1 message in the queues"]


def test_slow_batches_that_end_keep_it_alive() -> None:
    """Each takes nearly as long as may be, for hours."""
    batcher = Watched()
    for _ in range(500):
        assert not any(batcher.stands_still(9))
        batcher.progress += 1


def test_without_work_there_is_nothing_to_be_stuck_at() -> None:
    """An idle hour is none, and what comes then has the whole time."""
    batcher = Watched()
    assert not any(batcher.look() for _ in range(3_600))
    assert not any(batcher.stands_still(10))


@pytest.mark.parametrize("excuse", ["the broker is away", "the engine is being replaced"])
def test_what_is_no_fault_of_its_own_is_not_counted(excuse: str) -> None:
    """However long it lasts; afterwards the count begins anew."""
    batcher = Watched()
    batcher.stands_still(10)
    assert not any(batcher.look(in_hand=1, excuse=excuse) for _ in range(1_000))
    assert not any(batcher.stands_still(10))
    assert batcher.look(in_hand=1)


def test_a_gap_in_the_watching_is_not_held_against_it() -> None:
    """A process that was frozen for an hour, or a machine that slept, has lost a few seconds at most."""
    batcher = Watched()
    batcher.stands_still(3)
    assert MOST_STEP_S < STALL_S - 3
    assert batcher.look(in_hand=1, after_s=3_600.0) == ""
    assert batcher.look(in_hand=1, after_s=-5.0) == ""
    assert batcher.look(in_hand=1, after_s=3_600.0) != ""


def test_once_it_moves_again_it_is_well() -> None:
    """A verdict is of the moment."""
    batcher = Watched()
    assert batcher.stands_still(20)[-1]
    batcher.progress += 1
    assert batcher.look(in_hand=1) == ""


@pytest.mark.parametrize(
    ("stall_s", "engine_timeout_ms", "limit_s"), [(7, 30_000, 7.0), (0, 30_000, 90.0), (0, 100, 60.0)]
)
def test_the_limit_leaves_room_for_an_engine_that_hangs(
    stall_s: int, engine_timeout_ms: int, limit_s: float
) -> None:
    """As set, else twice what a batch may take and half a minute, and never less than a minute."""
    assert stall_limit_s(stall_s, engine_timeout_ms) == limit_s
