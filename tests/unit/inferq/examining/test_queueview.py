"""The queues of jobs, judged by who consumes them, and summed up."""

from inferq.cli.examining.finding import Grade
from inferq.cli.examining.queueview import QueueCount, told, unconsumed


def queues(*consumers: int, held: int | None = None) -> list[QueueCount]:
    """Return a queue for each shard, with so many consumers and a job each."""
    return [
        QueueCount(name=f"q.bulk.{shard}", ready=1, consumers=count, held=held)
        for shard, count in enumerate(consumers)
    ]


def test_shards_are_summed_up() -> None:
    """One line for each queue's shards, however many they are; what is in hand is told where it is known."""
    assert unconsumed(queues(1, 1, 1), shards=3) == []
    assert told(queues(1, 1, 1), shards=3) == "q.bulk: 3 ready, 3 shards, each with a consumer"
    assert (
        told(queues(1, 1, held=2), shards=2)
        == "q.bulk: 2 ready, 4 unacknowledged, 2 shards, each with a consumer"
    )


def test_shards_that_nobody_consumes_are_said_once() -> None:
    """All of them, or which, with the jobs that wait there; the first three by name."""
    (none,) = unconsumed(queues(0, 0), shards=2)
    assert (none.grade, none.detail) == (
        Grade.WRONG,
        "nobody consumes any shard of q.bulk, and 2 jobs wait there",
    )
    (one,) = unconsumed(queues(1, 0), shards=2)
    assert one.detail == "nobody consumes 1 shard of q.bulk (1), and 1 job waits there"
    (some,) = unconsumed(queues(0, 0, 1, 0, 0), shards=5)
    assert some.detail == "nobody consumes 4 shards of q.bulk (0, 1, 3, …), and 4 jobs wait there"


def test_many_queues_that_are_alike_are_told_of_once() -> None:
    """Beside many models with nothing to do, the one where something waits is seen."""
    idle = [QueueCount(name=f"q.m{number}", ready=0, consumers=1) for number in range(12)]
    busy = QueueCount(name="q.busy", ready=7, consumers=1)
    assert told([*idle[:5], busy, *idle[5:]], shards=1) == (
        "12 queues (q.m0, q.m1, q.m2, …): each 0 ready, 1 consumer; q.busy: 7 ready, 1 consumer"
    )


def test_without_shards_each_queue_is_told_by_itself() -> None:
    """A model's name may end with anything: it is no shard."""
    found = [QueueCount(name="q", ready=3, consumers=2), QueueCount(name="q.v1", ready=0, consumers=0)]
    assert told(found, shards=1) == "q: 3 ready, 2 consumers; q.v1: 0 ready, 0 consumers"
    assert [one.detail for one in unconsumed(found, shards=1)] == [
        "nobody consumes q.v1, and 0 jobs wait there"
    ]
