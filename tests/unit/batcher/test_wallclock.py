"""Moments of the wall's clock on the loop's clock."""

import pytest

from batcher.wallclock import WallClock

# When the loop's clock said nothing yet, in milliseconds since the epoch.
BEGAN_MS = 1_700_000_000_000.0


def seen(clock: WallClock, before_s: float, *, pause_s: float = 0.0, step_s: float = 0.0) -> None:
    """Read both clocks, out of work for ``pause_s`` between them; the wall's was set forward by ``step_s``."""
    clock.see(before_s, BEGAN_MS + (before_s + pause_s + step_s) * 1000, before_s + pause_s)


def test_a_moment_is_where_it_was() -> None:
    """Earlier and later moments lie as far from now as they do on the wall."""
    clock = WallClock()
    seen(clock, 100.0)
    assert clock.at_s(BEGAN_MS + 99_950) == pytest.approx(99.95, abs=1e-6)
    assert clock.at_s(BEGAN_MS + 101_000) == pytest.approx(101.0, abs=1e-6)


@pytest.mark.parametrize("pause_s", [0.0001, 0.004, 0.02, 3.0])
def test_a_pause_between_the_readings_changes_no_order(pause_s: float) -> None:
    """Of two jobs accepted one after the other the first stays first, whatever happened as the second was read."""
    clock = WallClock()
    seen(clock, 100.0)
    first = clock.at_s(BEGAN_MS + 99_990)
    seen(clock, 100.0 + 0.001, pause_s=pause_s)
    assert clock.at_s(BEGAN_MS + 99_990) == first


def test_a_better_reading_replaces_a_bad_one() -> None:
    """What the first reading missed the next one mends, and what came before stays before."""
    clock = WallClock()
    seen(clock, 100.0, pause_s=0.5)
    first = clock.at_s(BEGAN_MS + 99_990)
    seen(clock, 101.0)
    assert clock.at_s(BEGAN_MS + 99_990) == pytest.approx(99.99, abs=1e-6)
    assert first < clock.at_s(BEGAN_MS + 99_990)


@pytest.mark.parametrize("step_s", [-3600.0, -0.02, 0.02, 3600.0])
def test_a_clock_that_is_set_is_followed(step_s: float) -> None:
    """Both ways."""
    clock = WallClock()
    seen(clock, 100.0)
    seen(clock, 101.0, step_s=step_s)
    assert clock.at_s(BEGAN_MS + (101.0 + step_s) * 1000) == pytest.approx(101.0, abs=1e-6)
