"""Which jobs are missed in RabbitMQ, by what the batchers say."""

import pytest

from inferq.broker.rabbit_missing import SEEN_MARGIN_MS, missing
from inferq.heartbeats import BatcherBeat, BatchTotals
from inferq.jobs import OpenJob, Status

NOW_MS = 1_000_000.0
OLD_MS, YOUNG_MS = 900_000, 900_000 + SEEN_MARGIN_MS + 1


def job(queue: str = "q.1", *, created_ms: int = OLD_MS) -> OpenJob:
    """Make an open job."""
    return OpenJob(
        job_id="j",
        status=Status.QUEUED,
        queue=queue,
        message=b"m",
        created_ms=created_ms,
        due_ms=2_000_000,
    )


def says(*held: str, **seen_ms: int) -> BatcherBeat:
    """Make what a batcher says; `_` stands for the dot of a queue's name."""
    return BatcherBeat(
        id="b",
        at_ms=int(NOW_MS),
        model="builtin",
        device="cpu",
        state="busy",
        last_progress_s=0.0,
        drain_rate=0.0,
        held=list(held),
        seen_ms={name.replace("_", "."): at_ms for name, at_ms in seen_ms.items()},
        batches=BatchTotals(),
    )


@pytest.mark.parametrize(
    ("beats", "is_missing"),
    [
        ([], False),
        ([says(q_1=YOUNG_MS)], True),
        ([says(q_1=OLD_MS + SEEN_MARGIN_MS)], False),
        ([says(q_2=YOUNG_MS)], False),
        ([says(q_1=OLD_MS), says(q_1=YOUNG_MS)], True),
        ([says(q_1=YOUNG_MS), says("j")], False),
        ([says(q_1=OLD_MS), says(q_2=YOUNG_MS)], False),
    ],
)
def test_a_younger_job_of_its_own_shard_tells(beats: list[BatcherBeat], is_missing: bool) -> None:
    """One that came out at any batcher, as shards move; what other shards brought says nothing."""
    assert missing([job()], beats, empty=(), now_ms=NOW_MS) == ({"j"} if is_missing else set())


def test_an_empty_queue_holds_nothing() -> None:
    """Unless it is another one, or the job is in a batcher's hands."""
    assert missing([job()], [], empty={"q.1"}, now_ms=NOW_MS) == {"j"}
    assert missing([job()], [], empty={"q.2"}, now_ms=NOW_MS) == set()
    assert missing([job()], [says("j")], empty={"q.1"}, now_ms=NOW_MS) == set()


def test_a_clock_that_runs_ahead_tells_nothing() -> None:
    """No job was seen that is younger than now."""
    young = job(created_ms=int(NOW_MS) - 1_000)
    assert missing([young], [says(q_1=2_000_000)], empty=(), now_ms=NOW_MS) == set()
