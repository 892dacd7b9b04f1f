"""What is said of accepted requests."""

from loadgen.acceptrate import BARE, OURS, STOCK, Round, judged
from loadgen.closedloop import Rate
from loadgen.figures import Figure


def rate(
    per_s: int, *, refused: dict[str, int] | None = None, own_s: float = 0.5, others_s: float = 0.0
) -> Rate:
    """Return two seconds at a rate."""
    return Rate(
        seconds=2.0,
        accepted=2 * per_s,
        jobs=2 * per_s,
        refused=refused or {},
        own_cpu_s=own_s,
        others_cpu_s=others_s,
        cpu_s={"ingress": 1.0},
    )


def a_round(bare: int, ours: int, stock: int = 0, *, refused: dict[str, int] | None = None) -> Round:
    """Return a round with these rates."""
    runs = {BARE: rate(bare), OURS: rate(ours, refused=refused)}
    return Round(runs=runs | ({STOCK: rate(stock)} if stock else {}))


def figure(found: list[Round], words: str) -> Figure:
    """Return the one figure whose name has these words."""
    (one,) = [figure for figure in judged("rabbitmq", found) if words in figure.name]
    return one


def test_ratios_are_medians_of_rounds() -> None:
    """Of the ratios within a round, not of rates of different moments."""
    found = [a_round(1000, 500, 200), a_round(2000, 900, 300), a_round(500, 400, 100)]
    assert figure(found, "ours over bare").value == 0.5
    assert figure(found, "ours over stock").value == 3.0
    assert all(one.holds for one in judged("rabbitmq", found))


def test_what_falls_short_says_so() -> None:
    """Too slow beside either, or any refusal; a bare app that answers nothing is no denominator."""
    slow = [a_round(1000, 449, 180)]
    assert not figure(slow, "ours over bare").holds
    assert not figure(slow, "ours over stock").holds
    assert figure([a_round(1000, 500, refused={"503": 2})], "other answers").value == 2
    assert not figure([a_round(0, 500)], "ours over bare").holds


def test_without_a_stock_app_it_is_not_judged() -> None:
    """On Streams there is none."""
    assert not [one for one in judged("streams", [a_round(1000, 500)]) if STOCK in one.name]


def test_a_rate_says_what_casts_doubt_on_it() -> None:
    """A generator without CPU left, and others on the machine."""
    assert rate(1000).doubts == []
    assert "doubtful" not in rate(1000, refused={"503": 1}).words()
    assert len(rate(1000, own_s=1.7, others_s=0.7).doubts) == 2
    assert "doubtful: the generator was short of CPU" in rate(1000, own_s=1.7).words()
    assert rate(1000).cpu_us("ingress") == 500.0
