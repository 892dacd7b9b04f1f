"""When each request is due. Pure.

Open loop: the schedule is fixed before the first request and does not care how the server does. Latency is counted from
these times, so that a stalled server cannot hide its stall by delaying the requests after it (coordinated omission).
"""

from collections.abc import Iterator


def constant(rate: float, seconds: float) -> Iterator[float]:
    """Yield due times in seconds from the start, ``rate`` a second, for ``seconds``."""
    return (number / rate for number in range(round(rate * seconds)))
