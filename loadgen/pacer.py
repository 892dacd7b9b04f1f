"""When each request is due. Pure.

Open loop: the schedule is fixed before the first request and does not care how the server does. Latency is counted from
these times, so that a stalled server cannot hide its stall by delaying the requests after it (coordinated omission).
"""

from collections.abc import Iterator


def constant(rate: float, seconds: float) -> Iterator[float]:
    """Yield due times in seconds from the start, ``rate`` a second, for ``seconds``."""
    return (number / rate for number in range(round(rate * seconds)))


def percentile(sorted_values: list[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the sorted values lie; nan for none (nearest rank)."""
    if not sorted_values:
        return float("nan")
    rank = max(1, -(-len(sorted_values) * share // 1))
    return sorted_values[min(len(sorted_values), int(rank)) - 1]
