"""What is said of publishing."""

from loadgen.publishcost import Round, judged
from loadgen.publishing import AIO_PIKA, OURS, Published


def a_round(*, ours_s: float, ours_cpu_s: float) -> Round:
    """Return 10,000 messages of each, the library's in a second."""
    return Round(
        runs={
            OURS: Published(jobs=10_000, seconds=ours_s, cpu_s=ours_cpu_s, broker_cpu_s=0.3),
            AIO_PIKA: Published(jobs=10_000, seconds=1.0, cpu_s=0.9, broker_cpu_s=0.4),
        }
    )


def test_publishing_holds_or_falls_short() -> None:
    """Three times the rate, and 10 us a message; medians of rounds."""
    good, bad = a_round(ours_s=0.3, ours_cpu_s=0.09), a_round(ours_s=0.5, ours_cpu_s=0.11)
    assert all(one.holds for one in judged([good, bad, good]))
    assert [one.goal for one in judged([bad, good, bad]) if not one.holds] == [
        "at least 3 times",
        "at most 10 us",
    ]
