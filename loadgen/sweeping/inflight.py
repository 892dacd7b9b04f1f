"""Where the curve of a closed loop bends. Pure.

With N requests in flight, throughput is at most N over the latency of one alone, and at most what the server can do.
The two lines meet at N* = X W: the highest throughput times the latency of the lightest level's requests, by which its
own N is divided (asymptotic bounds of operational analysis; Denning and Buzen, "The Operational Analysis of Queueing
Network Models", 1978). Below N* the server waits for requests, above it requests wait for the server. One that batches
gets through more than both lines say it would be asked for, so its bend comes later and is softer.
"""

from collections.abc import Sequence
from typing import Final

from loadgen.sweeping.row import Row

RULE: Final = (
    "the number of requests in flight at which throughput would be the highest that was seen, were it to grow as it"
    " does at the lightest level"
)


def bend(rows: Sequence[Row]) -> float | None:
    """Return N*, and None when nothing was done at the lightest level."""
    ordered = sorted(rows, key=lambda row: row.level)
    if not ordered or not ordered[0].achieved > 0:
        return None
    return ordered[0].level * max(row.achieved for row in ordered) / ordered[0].achieved
