"""Every name inside Redis and the broker."""

import random
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.cachekey import input_digest, shard_of
from inferq.jobs import Job, Priority
from inferq.names import DEAD_LIMIT, GROUP, HASHED_BYTES, Names


def _all(names: Names) -> list[str]:
    return [
        names.job("a1"),
        names.cache("a1"),
        names.idem("a1"),
        names.quota_jobs("a1"),
        names.quota_rate("a1"),
        names.event_channel(0),
        names.open_jobs,
        names.webhooks,
        names.webhooks_due,
        names.webhooks_failed,
        names.webhook_owners,
        names.webhooks_owned,
        names.webhook("a1"),
        names.batchers,
        names.ingresses,
        names.sweeper,
        names.lease("b"),
        names.sharding,
        names.queued_bell,
        names.waiting_count("builtin"),
        names.waiting_count("other"),
        names.shard_members("builtin"),
        names.shard_members("other"),
        names.shard_newcomers("builtin"),
        names.shard_owners("builtin"),
        names.shard_owners("other"),
        names.exchange,
        names.dead_exchange,
        names.dead_queue,
        names.dropped_queue,
        *names.queues("builtin", "other"),
    ]


@pytest.mark.parametrize("namespace", ["", "t1-", "a:b."])
def test_names_are_those_of_the_contract(namespace: str) -> None:
    """Fixed names, each after the namespace."""
    names = Names(namespace=namespace)
    assert names.job("a1") == f"{namespace}job:a1"
    assert names.cache("0f") == f"{namespace}cache:0f"
    assert names.idem("0f") == f"{namespace}idem:0f"
    assert names.quota_jobs("ann") == f"{namespace}quota:ann:jobs"
    assert names.quota_rate("ann") == f"{namespace}quota:ann:rate"
    assert names.event_channel(0) == f"{namespace}job-events"
    assert names.exchange == f"{namespace}inference"
    assert names.dead_exchange == f"{namespace}inference.dead"
    assert names.dead_queue == f"{namespace}inference.requests.dead"
    assert names.queue("builtin") == f"{namespace}inference.requests"
    assert GROUP == "batchers"


@given(st.from_regex(r"\A[A-Za-z0-9_:.\-]{1,64}\Z"), st.integers(min_value=1, max_value=4))
def test_every_name_begins_with_the_namespace(namespace: str, shards: int) -> None:
    """Two deployments can share servers: nothing escapes the namespace, and no two names meet within it."""
    plain = _all(Names(shards=shards))
    assert _all(Names(namespace=namespace, shards=shards)) == [namespace + name for name in plain]
    assert len(set(plain)) == len(plain)


@pytest.mark.parametrize(
    ("model", "priority", "shards", "shard", "name"),
    [
        ("builtin", Priority.INTERACTIVE, 1, 0, "inference.requests"),
        ("builtin", Priority.BULK, 1, 0, "inference.requests.bulk"),
        ("builtin", Priority.INTERACTIVE, 2, 1, "inference.requests.1"),
        ("other", Priority.INTERACTIVE, 1, 0, "inference.requests.other"),
        ("other", Priority.BULK, 3, 2, "inference.requests.other.bulk.2"),
    ],
)
def test_a_queue_says_what_differs_from_the_default(
    model: str, priority: Priority, shards: int, shard: int, name: str
) -> None:
    """Model, priority and shard are appended in this order, each only where it applies."""
    assert Names(shards=shards).queue(model, priority, shard) == name


def test_interactive_queues_come_before_bulk() -> None:
    """Consumers read a set of queues in this order; without a model it is the default one's."""
    names = Names(default_model="m", shards=2)
    assert names.queues() == (
        "inference.requests.0",
        "inference.requests.1",
        "inference.requests.bulk.0",
        "inference.requests.bulk.1",
    )
    assert Names().queues("builtin", "other") == (
        "inference.requests",
        "inference.requests.other",
        "inference.requests.bulk",
        "inference.requests.other.bulk",
    )


@pytest.mark.parametrize("shards", [1, 3])
def test_every_queue_of_a_job_is_consumed(shards: int) -> None:
    """Wherever a job of a served model may be put, its consumers look."""
    names = Names(shards=shards)
    put = {
        names.queue(model, priority, shard)
        for model, priority, shard in product(("builtin", "other"), Priority, range(shards))
    }
    assert set(names.queues("builtin", "other")) == put


@pytest.mark.parametrize("priority", Priority)
def test_equal_inputs_meet_in_one_shard(priority: Priority) -> None:
    """The input alone says which; a shard's queues are those that its jobs are put into."""
    names = Names(shards=64)

    def queue(text: str, job_id: str) -> str:
        return names.queue_of(Job(job_id=job_id, model="builtin", text=text, created_ms=1, priority=priority))

    assert queue("good", "a") == queue("good", "b")
    shard = shard_of(input_digest("good"), 64)
    assert queue("good", "a") == names.queue("builtin", priority, shard)
    assert queue("good", "a") in names.shard_queues("builtin", shard)
    assert len({queue(f"text {number}", "a") for number in range(1000)}) == 64
    assert {queue for shard in range(64) for queue in names.shard_queues("builtin", shard)} == set(
        names.queues()
    )


def test_what_the_queues_of_all_shards_begin_with() -> None:
    """A dot and the shard make a queue of it."""
    names = Names(shards=12)
    for model in ("builtin", "other"):
        bases = names.shard_bases(model)
        assert tuple(f"{base}.{shard}" for base in bases for shard in range(12)) == names.queues(model)


@pytest.mark.parametrize("shards", [1, 12])
@pytest.mark.parametrize("namespace", ["", "t.1-"])
def test_what_all_queues_of_a_model_begin_with(shards: int, namespace: str) -> None:
    """It is told from any of them, and is no other model's."""
    names = Names(namespace=namespace, shards=shards)
    for model, base in (("builtin", "inference.requests"), ("v1.2-bulky", "inference.requests.v1.2-bulky")):
        assert {names.base_of(queue) for queue in names.queues(model)} == {namespace + base}


def test_without_shards_a_job_is_in_the_one_queue() -> None:
    """Whatever its input is."""
    job = Job(job_id="a", model="builtin", text="good", created_ms=1, priority=Priority.BULK)
    assert Names().queue_of(job) == "inference.requests.bulk"


IDS = st.from_regex(r"\A[A-Za-z0-9_.:-]{1,100}\Z")


@pytest.mark.parametrize(
    ("job_id", "shards", "shard"),
    [
        ("a", 7, 97 % 7),
        ("ab", 256, (97 * 31 + 98) % 256),
        ("zzzzzzzz", 256, 0),
        ("zzzzzzzzz", 256, 0),
        ("0123456789abcdef", 5, 4),
        ("9abcdef", 5, 2),
        ("00000000000000000000000000000000", 7, sum(48 * 31**power for power in range(8)) % 2**32 % 7),
        ("00000000000000000000000000000001", 7, 3),
    ],
)
def test_which_channel_tells_of_a_job(job_id: str, shards: int, shard: int) -> None:
    """Fixed for ever: processes of different versions share the channels."""
    assert Names(event_shards=shards).event_shard(job_id) == shard


@given(IDS, IDS, st.integers(1, 256))
def test_an_ids_end_decides_its_channel(job_id: str, before: str, shards: int) -> None:
    """It is one of those that there are; what precedes the last bytes makes no difference."""
    names = Names(event_shards=shards)
    shard = names.event_shard(job_id)
    assert 0 <= shard < shards
    assert names.event_shard(before + job_id[-HASHED_BYTES:].rjust(HASHED_BYTES, "x")) == names.event_shard(
        job_id[-HASHED_BYTES:].rjust(HASHED_BYTES, "x")
    )
    assert Names().event_shard(job_id) == 0


@pytest.mark.parametrize("shards", [2, 16, 100])
def test_random_ids_are_spread_evenly(shards: int) -> None:
    """No channel tells of twice its share, none of less than half."""
    chance, names = random.Random(1), Names(event_shards=shards)
    counts = Counter(names.event_shard(chance.randbytes(16).hex()) for _ in range(400 * shards))
    assert set(counts) == set(range(shards))
    assert 200 < min(counts.values()) <= max(counts.values()) < 800


@pytest.mark.parametrize("namespace", ["", "t1-"])
def test_channels_are_named_by_their_shard(namespace: str) -> None:
    """The first has the plain name; scripts are told the first, and how many there are where there are several."""
    names = Names(namespace=namespace, event_shards=12)
    assert [names.event_channel(shard) for shard in (0, 1, 11)] == [
        f"{namespace}job-events",
        f"{namespace}job-events.1",
        f"{namespace}job-events.11",
    ]
    assert names.announced == f"{namespace}job-events#12"
    assert Names(namespace=namespace).announced == f"{namespace}job-events"


def test_a_work_queue_loses_nothing() -> None:
    """Quorum, refusing what is too much, and dead-lettering at least once to the queue that is read at once."""
    names = Names(namespace="t-")
    assert names.queue_arguments(77) == {
        "x-queue-type": "quorum",
        "x-max-length": 77,
        "x-overflow": "reject-publish",
        "x-delivery-limit": 50,
        "x-dead-letter-exchange": "t-inference.dead",
        "x-dead-letter-routing-key": "t-inference.requests.dropped",
        "x-dead-letter-strategy": "at-least-once",
    }


def test_a_queue_of_dead_letters_is_bounded_and_keeps_what_is_looked_at() -> None:
    """The oldest go first, and looking at a letter many times does not drop it."""
    arguments = Names().dead_arguments
    assert arguments["x-queue-type"] == "quorum"
    assert (arguments["x-max-length"], arguments["x-overflow"]) == (DEAD_LIMIT, "drop-head")
    assert int(arguments["x-delivery-limit"]) > 100_000
    assert "x-dead-letter-exchange" not in arguments


def test_webhooks_have_names_of_their_own() -> None:
    """The scripts make some of them from what names begin with."""
    names = Names(namespace="t-")
    kept = [names.webhooks_due, names.webhooks_failed, names.webhook_owners, names.webhooks_owned]
    assert kept == ["t-webhooks-due", "t-webhooks-failed", "t-webhooks-owners", "t-webhooks-owned"]
    assert (names.webhooks, names.webhook("a1")) == ("t-webhooks", "t-webhook:a1")
