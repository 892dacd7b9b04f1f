"""Which mates a batch keeps when somebody's time is at stake, and who gives way. Pure.

1. Where a deadline in the batch would be missed, mates are dropped, the longest first; for the most urgent job's mere
   budget only as long as that makes a job at most `MOST_DEARER` times dearer.
2. But in a crowd it is another batch of jobs with deadlines, if that answers so many more in time for what it costs,
   and only where the most urgent job has a deadline too: one without never expires, and nobody passes it. Saving the
   most urgent first makes small batches that delay all others until they are as urgent. At twice its capacity an engine
   of 5 ms a run answered 27 % of that in time by urgency alone, 77 % with the most urgent group's late jobs left out,
   98 % with the best group; the full-size model on two cores 28 and then 38 texts/s. What gives way is long texts.
"""

from collections.abc import Callable, Sequence
from math import inf
from operator import attrgetter
from typing import Final, TypeVar

from batcher.waiting import Waiting

MOST_DEARER: Final = 1.25

Job = TypeVar("Job", bound=Waiting)
_due_s = attrgetter("due_s")


def keep(
    jobs: list[Job],
    groups: list[list[Job]],
    urgent: Job,
    *,
    batch_ms: Callable[[int, int], float],
    ends_s: Callable[[Sequence[Job]], float],
    crowded: Callable[[], bool],
) -> list[Job]:
    """Return the batch to run: ``jobs``, the most urgent one's group, as it is, or fewer, or of another group.

    ``batch_ms`` predicts a batch's time from its rows and length, ``ends_s`` when a batch that is begun now is stored;
    ``crowded`` says whether more waits than can be in time.
    """

    def each_ms(some: Sequence[Job]) -> float:
        return batch_ms(len(some), some[-1].length) / len(some)

    soft_s = urgent.budget_s if ends_s([urgent]) <= urgent.budget_s else inf
    if ends_s(jobs) <= min(*map(_due_s, jobs), soft_s):
        return jobs
    most_ms = MOST_DEARER * each_ms(jobs)
    # Of equally long ones the least urgent is dropped first.
    kept = sorted(jobs, key=attrgetter("length", "budget_s"))
    while len(kept) > 1:
        hard_s, kept_ends_s = min(map(_due_s, kept)), ends_s(kept)
        if kept_ends_s <= min(hard_s, soft_s):
            break
        fewer = kept[:-1] if kept[-1] is not urgent else kept[1:]
        if kept_ends_s <= hard_s and each_ms(fewer) > most_ms:
            break
        kept = fewer
    # What never expires could be passed over for ever under a lasting overload.
    lasting = urgent.due_s == inf
    if (lasting and soft_s < inf) or not crowded():
        return kept
    return _more_in_time([jobs] if lasting else groups, kept, batch_ms, ends_s, lasting=lasting)


def _more_in_time(
    groups: list[list[Job]],
    kept: list[Job],
    batch_ms: Callable[[int, int], float],
    ends_s: Callable[[Sequence[Job]], float],
    *,
    lasting: bool,
) -> list[Job]:
    """Return the jobs without those whose deadlines they miss together, where that answers many more than ``kept`` for
    its time; else ``kept``. Jobs without a deadline may be among them only if ``lasting``."""

    def rate(some: Sequence[Job]) -> float:
        end_s = ends_s(some)
        return sum(job.due_s >= end_s for job in some) / batch_ms(len(some), some[-1].length)

    best, most = kept, MOST_DEARER * rate(kept)
    for group in groups:
        left = group
        while left and (first := min(left, key=_due_s)).due_s < ends_s(left):
            left = [job for job in left if job is not first]
        if left and (lasting or max(map(_due_s, left)) < inf) and rate(left) > most:
            best, most = left, rate(left)
    return best
