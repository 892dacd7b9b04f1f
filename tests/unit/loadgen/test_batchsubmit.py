"""What is said of batch submits."""

import pytest

from loadgen.batchsubmit import BATCH, SINGLE, Round, judged
from loadgen.closedloop import Rate


def rate(jobs: int, *, ingress_s: float, refused: dict[str, int] | None = None) -> Rate:
    """Return a second of jobs."""
    return Rate(
        seconds=1.0,
        accepted=jobs,
        jobs=jobs,
        refused=refused or {},
        own_cpu_s=0.1,
        others_cpu_s=0.0,
        cpu_s={"ingress": ingress_s},
    )


@pytest.mark.parametrize(
    ("batch", "holds"),
    [
        (rate(2000, ingress_s=0.6), [True, True, True]),
        (rate(2000, ingress_s=0.8), [False, True, True]),
        (rate(1900, ingress_s=0.5), [True, False, True]),
        (rate(2000, ingress_s=0.6, refused={"503": 1}), [True, True, False]),
        (rate(0, ingress_s=0.6), [False, False, True]),
    ],
    ids=["good", "dear", "slow", "refused", "nothing"],
)
def test_a_batch_beside_single_submits(batch: Rate, holds: list[bool]) -> None:
    """A third of the CPU for a job, twice the jobs, nothing refused."""
    figures = judged("streams", [Round(runs={SINGLE: rate(1000, ingress_s=1.0), BATCH: batch})])
    assert [one.holds for one in figures if one.goal] == holds
