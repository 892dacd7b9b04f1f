"""What RabbitMQ says of its nodes and of our queues, judged."""

from typing import Any

import pytest

from inferq.cli.examining.finding import Grade
from inferq.cli.examining.queueview import QueueCount
from inferq.cli.examining.rabbitview import judge_management, judge_nodes, judge_queues

WORK = QueueCount(name="inference.requests", ready=3, consumers=2)
DROPPED = QueueCount(name="inference.requests.dropped", ready=0, consumers=0)


def test_queues_that_are_consumed_are_well() -> None:
    """With what is unacknowledged, where the management tells it."""
    (found,) = judge_queues([WORK], DROPPED, [])
    assert (found.grade, found.detail) == (Grade.OK, "inference.requests: 3 ready, 2 consumers")
    managed = [{"name": WORK.name, "messages_unacknowledged": 4, "state": "running"}]
    (found,) = judge_queues([WORK], DROPPED, managed)
    assert found.detail == "inference.requests: 3 ready, 4 unacknowledged, 2 consumers"


@pytest.mark.parametrize(
    ("managed", "said"),
    [
        ({"state": "down"}, "inference.requests is down"),
        (
            {"policy": "ttl", "effective_policy_definition": {"message-ttl": 1, "ha-mode": "all"}},
            "the policy ttl sets message-ttl on inference.requests",
        ),
        (
            {"operator_policy": "caps", "effective_policy_definition": {"expires": 1}},
            "the policy caps sets expires",
        ),
    ],
)
def test_what_takes_jobs_away_is_wrong(managed: dict[str, Any], said: str) -> None:
    """A policy of somebody else, or a queue without a leader."""
    (found,) = judge_queues([WORK], DROPPED, [{"name": WORK.name, **managed}])
    assert found.grade is Grade.WRONG
    assert said in found.detail
    assert found.cure


def test_a_queue_without_consumers_is_wrong_and_a_dropped_message_a_note() -> None:
    """Nobody runs the jobs; what was given up is told beside it."""
    found = judge_queues(
        [QueueCount(name="q", ready=1, consumers=0)], QueueCount(name="d", ready=2, consumers=0), []
    )
    assert [(one.grade, one.detail) for one in found] == [
        (Grade.WRONG, "nobody consumes q, and 1 job waits there"),
        (Grade.NOTE, "RabbitMQ itself gave up 2 messages, which lie in d"),
    ]


@pytest.mark.parametrize(
    ("node", "taken", "said"),
    [
        (
            {"mem_alarm": True, "mem_used": 2 << 20, "mem_limit": 1 << 20},
            False,
            "uses 2 of 1 MiB of memory",
        ),
        ({"disk_free_alarm": True, "disk_free": 5 << 20, "disk_free_limit": 50 << 20}, False, "5 MiB of its"),
        ({"running": False}, True, "n does not run"),
        ({}, False, "RabbitMQ confirms no message"),
    ],
)
def test_alarms_are_named(node: dict[str, Any], taken: bool, said: str) -> None:
    """By what the node lacks where it tells, else by what it does."""
    (found,) = judge_nodes([{"name": "n", **node}], taken=taken)
    assert found.grade is Grade.WRONG
    assert said in found.detail
    assert found.cure


def test_without_alarms_all_is_well() -> None:
    """Whether the management tells or not."""
    assert [one.detail for one in judge_nodes([{"name": "n"}], taken=True)] == [
        "RabbitMQ confirms messages, and no node has an alarm"
    ]
    assert [one.detail for one in judge_nodes([], taken=True)] == ["RabbitMQ confirms messages"]


def test_the_management_is_not_needed() -> None:
    """Without it there is a note that says so, and how to have it."""
    assert judge_management("http://h", "", "3.10").detail == "http://h: RabbitMQ 3.10"
    found = judge_management("http://h", "nothing listens there", "")
    assert (found.grade, found.cure[:4]) == (Grade.NOTE, "run ")
    assert "no job needs it" in found.detail
