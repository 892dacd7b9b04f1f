"""How the rows of a batch and the rows of its padded shape are made to agree. Pure.

Composition knows padded lengths, since jobs carry them, but prices rows one by one. On a device with few shapes
(`batcher.shapes`) that leaves two things, both done to the batch that runs next:

1. Of more rows than the largest shape within the bounds has, the shortest are left for the next batch.
2. Rows that would be padding are given to jobs that wait and are not longer. They cost the device nothing.

The most urgent job stays in. Without shapes the batch stays as it is.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeVar

from batcher.shapes import Shapes
from batcher.waiting import Waiting

Job = TypeVar("Job", bound=Waiting)


def to_shape(
    jobs: list[Job], waiting: Sequence[Job], urgent: Job, shapes: Shapes, *, max_rows: int, max_tokens: int
) -> list[Job]:
    """Return a batch, sorted by length, with the rows of a shape as far as enough jobs of ``waiting`` fit into it."""
    if not shapes.count:
        return jobs
    length = jobs[-1].length
    most = shapes.most_rows(length, max_rows, max_tokens)
    if len(jobs) > most:
        kept = jobs[-most:]
        return [urgent, *kept[1:]] if urgent in jobs and urgent not in kept else kept
    free = min(most, shapes.padded(len(jobs), length)[0]) - len(jobs)
    if not free:
        return jobs
    taken = set(jobs)
    fitting = sorted(
        (job for job in waiting if job.length <= length and job.group == urgent.group and job not in taken),
        key=attrgetter("length"),
    )
    return sorted([*jobs, *fitting[-free:]], key=attrgetter("length"))
