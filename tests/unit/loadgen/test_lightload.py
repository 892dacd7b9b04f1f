"""What is said of light load."""

import pytest

from loadgen.lightload import Round, judged


@pytest.mark.parametrize(
    ("slo_ms", "holds"), [(20.0, True), (23.0, True), (23.1, False), (float("nan"), False)]
)
def test_nobody_is_the_worse_for_batching(slo_ms: float, holds: bool) -> None:
    """The median may be up to 1.15 of one by one's; what was not seen does not hold."""
    *_, ratio = judged("full-size", [Round(slo_ms=slo_ms, alone_ms=20.0)])
    assert ratio.holds is holds


def test_the_median_round_counts() -> None:
    """One bad round among three does not decide."""
    rounds = [
        Round(slo_ms=20.0, alone_ms=20.0),
        Round(slo_ms=90.0, alone_ms=20.0),
        Round(slo_ms=44.0, alone_ms=40.0),
    ]
    slo, alone, ratio = judged("builtin", rounds)
    assert (slo.value, alone.value) == (44.0, 20.0)
    assert ratio.value == pytest.approx(1.1)
    assert all(one.name.startswith("builtin, 30% load, ") for one in (slo, alone, ratio))
