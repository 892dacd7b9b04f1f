"""How much of a client is read at a time."""

from notifier.pace import FEW_FRAMES, MOST_FLOODS, Pace


def test_who_says_little_is_read_at_once() -> None:
    """However often: what does not fill a read, with few frames in it."""
    pace = Pace()
    assert not any(pace.took(511, FEW_FRAMES) for _ in range(1000))
    assert len(pace.buffer) == 512
    assert not pace.floods


def test_large_messages_are_read_in_ever_larger_pieces() -> None:
    """Up to a bound; each waits for its turn."""
    pace, sizes = Pace(), []
    for _ in range(8):
        sizes.append(len(pace.buffer))
        assert pace.took(len(pace.buffer), 0)
    assert sizes == [512, 1024, 2048, 4096, 8192, 16384, 16384, 16384]
    assert not pace.floods


def test_many_frames_lead_back_to_little() -> None:
    """Whether they filled the read or not; among many bytes they are messages, and no flood."""
    for taken in (1000, 1024):
        pace = Pace()
        for _ in range(MOST_FLOODS + 1):
            assert pace.took(512, 1)
            assert pace.took(taken, FEW_FRAMES + 1)
            assert len(pace.buffer) == 512
        assert not pace.floods


def test_too_short_frames_are_a_flood_after_a_while() -> None:
    """Whatever comes in between."""
    pace = Pace()
    for _ in range(MOST_FLOODS):
        assert pace.took(500, 85)
        assert not pace.took(100, 1)
        assert not pace.floods
    pace.took(500, 85)
    assert pace.floods
