"""Which of the waiting jobs run together. Pure.

A batch costs by its padded shape, so jobs of like length belong together, and how many of them depends on what a run
costs beside its tokens. `by_cost` sorts the jobs by length and cuts them by dynamic programming into groups of least
total predicted time, after TurboTransformers (Fang et al., PPoPP '21: sequence-length-aware batching), with
the bounds on jobs and padded tokens added. It is O(jobs x largest batch) and takes at most 0.1 ms for a window of 64.

Padding is priced higher than other tokens, by `PADDING_PRICE` of what a token costs. A job that is left behind is no
loss: the window fills again, with better mates for it. With windows of 28 to 44 snippets that are refilled after each
batch, that raises the useful share by one to two points (from 0.942 to 0.96, say) and makes a job no dearer, up to
about this price; at 1.2 batches become too small.

Tried and lost, on recorded snippets (docs/benchmarks/composition.md): batches in order of arrival, which compute nearly
two tokens for each useful one, and sorted windows cut at a fixed number of jobs, which pad less but still pay for the
jump where lengths differ most.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf
from operator import attrgetter
from typing import Final, TypeVar

from batcher.cost import Cost
from batcher.waiting import Waiting

PADDING_PRICE: Final = 0.8

Job = TypeVar("Job", bound=Waiting)

Compose = Callable[[Sequence[Job], Cost, int, int], list[list[Job]]]
"""Takes jobs, a cost, the most jobs and the most padded tokens of a batch; returns a partition of the jobs."""


def by_cost(jobs: Sequence[Job], cost: Cost, max_rows: int, max_tokens: int) -> list[list[Job]]:
    """Return groups of least total predicted time, each with its jobs by length; a longer job than fits is alone.

    Of jobs of one length the first come last: `cut` makes the last groups the full ones, and they run first.
    """
    last_first = jobs[::-1]
    ordered = sorted(last_first, key=attrgetter("length"))
    groups = []
    end = len(ordered)
    starts = cut([job.length for job in ordered], cost, max_rows, max_tokens)
    while end:
        groups.append(ordered[starts[end] : end])
        end = starts[end]
    return groups[::-1]


def cut(lengths: Sequence[int], cost: Cost, max_rows: int, max_tokens: int) -> list[int]:
    """Return, for each prefix of ascending ``lengths``, where the last group of its best partition starts.

    Of equally good partitions the one with the larger last group is taken: what a batch costs outside the engine is in
    no fit. What a row costs at the end of a prefix, and a token of padding there, never falls from one to the next, so
    neither does the best start
    (the concave case of Hirschberg and Larmore, SIAM J. Comput. 1987), and each search begins at the one before.
    """
    best = [0.0] * (len(lengths) + 1)
    starts = [0] * (len(lengths) + 1)
    # Tokens of each prefix: what lies between two of them is not padding.
    tokens = [0, *accumulate(lengths)]
    run_ms, each_ms, price_ms, known = cost.tau0_ms, 0.0, 0.0, -1
    first, most = 0, max_rows
    for end, length in enumerate(lengths, start=1):
        if length != known:
            price_ms = PADDING_PRICE * cost.token_cost_ms(length)
            each_ms, known = cost.row_cost_ms(length), length
            most = min(max_rows, max(1, max_tokens // length))
        if first < end - most:
            first = end - most
        least, until = inf, tokens[end]
        for start in range(first, end):
            rows = end - start
            padding = rows * length - until + tokens[start]
            total = best[start] + rows * each_ms + padding * price_ms
            if total < least:
                least, first = total, start
        best[end], starts[end] = least + run_ms, first
    return starts


def by_group(
    compose: Compose[Job], rows: list[Job], cost: Cost, most_rows: int, most_tokens: int
) -> list[list[Job]]:
    """Compose the rows of each group by themselves."""
    apart: dict[str, list[Job]] = {}
    for job in rows:
        apart.setdefault(job.group, []).append(job)
    composed = [compose(some, cost, most_rows, most_tokens) for some in apart.values()]
    return [batch for batches in composed for batch in batches]
