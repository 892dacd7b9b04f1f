"""What is said of the open loop."""

from loadgen.figures import Figure
from loadgen.spike import Load, judged
from loadgen.timedload import Seen

LOADS = (Load(rate=10.0, seconds=1.0, goals_ms={"p50": 1.5}),)


def seen(*, waits_ms: float = 1.0, refused: int = 0, lag_ms: float = 0.1) -> Seen:
    """Return ten requests, the last of which were refused at once."""
    accepted = 10 - refused
    return Seen(
        rate=10.0,
        seconds=1.0,
        statuses=[202] * accepted + [503] * refused,
        waits_ms=[waits_ms] * accepted + [0.0] * refused,
        hurried=0,
        lag_p99_ms=lag_ms,
        own_cpu_s=0.1,
        others_cpu_s=0.0,
        cpu_s={"ingress": 0.2},
    )


def figure(runs: list[Seen], words: str) -> Figure:
    """Return the one figure whose name has these words."""
    (one,) = [figure for figure in judged("streams", [[run] for run in runs], LOADS) if words in figure.name]
    return one


def test_good_rounds_hold() -> None:
    """Every goal, and each line names broker and rate."""
    figures = judged("streams", [[seen()], [seen()]], LOADS)
    assert all(one.holds for one in figures)
    assert all(one.name.startswith("open loop, streams, 10/s, ") for one in figures)


def test_one_refusal_in_one_round_falls_short() -> None:
    """Accepted is of the worst round, and a refusal's time is none of acceptance."""
    found = figure([seen(), seen(refused=1), seen()], "accepted in the worst round")
    assert (found.value, found.holds) == (90.0, False)
    assert figure([seen(refused=9)], "p50").value == 1.0


def test_a_generator_that_was_late_does_not_count() -> None:
    """Its times are left out while another round is valid; where none is, they stand with a lag that falls short."""
    late = seen(waits_ms=9.0, lag_ms=1.5)
    assert figure([late, seen(), late], "p50").value == 1.0
    lag = figure([late, seen(), late], "sends late")
    assert "1 of 3 rounds valid" in lag.name
    assert lag.holds
    assert figure([late], "p50").value == 9.0
    assert not figure([late], "sends late").holds
