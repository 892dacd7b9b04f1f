"""A job that waits for its batch, as the pure rooms see it. Pure."""

from dataclasses import dataclass
from math import inf


@dataclass(kw_only=True, eq=False)
class Waiting:
    """A job that waits; times in seconds on the loop's clock.

    ``length`` is its tokens, padded as a row of its own would be, or its rows where it has tensors; only jobs of equal
    ``group`` share a batch. ``budget_s`` is when it should be done, ``due_s`` when it expires. ``key`` is what equal
    inputs have in common, None for a job that wants to run by itself. A suspect once took the engine down alone.
    """

    job_id: str
    length: int
    arrived_s: float
    budget_s: float
    due_s: float = inf
    key: str | None = None
    interactive: bool = True
    suspect: bool = False
    group: str = ""
