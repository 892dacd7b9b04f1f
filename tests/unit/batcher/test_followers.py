"""Who may wait for the answer of an equal input, and who is let go with it."""

from math import inf

from batcher.followers import Followers
from batcher.item import Item
from batcher.lanes import Rank, Turn
from batcher.policy import CloseReason
from inferq.jobs import Job
from inferq.steps import Origin


def item(job_id: str, key: str | None = "k", *, interactive: bool = True) -> Item:
    """A job with one token."""
    job = Job(job_id=job_id, model="m", text="t", created_ms=0)
    return Item(
        job_id=job_id,
        length=1,
        arrived_s=0.0,
        budget_s=inf,
        key=key,
        interactive=interactive,
        origin=Origin(job=job, queue="q", message=b""),
        deliveries=[],
        ids=[1],
        truncated=False,
        arrived_ms=0.0,
        tokenize_ms=0.0,
    )


def turn(*jobs: Item, rank: Rank = Rank.INTERACTIVE) -> Turn[Item]:
    """A batch that is begun."""
    return Turn(jobs=list(jobs), twins=[], reason=CloseReason.GREEDY, rank=rank, begun_s=0.0)


def test_an_equal_follows_until_its_leader_is_done() -> None:
    """It waits for the answer, in order; once that was given, the next one has to run."""
    followers = Followers()
    followers.lead(turn(item("leader")))
    waiting = [item("a"), item("b")]
    assert [followers.follow(one) for one in waiting] == [True, True]
    assert not followers.follow(item("c", "another"))
    assert followers.leave("k") == waiting
    assert followers.leave("k") == []
    assert not followers.follow(item("d"))


def test_a_job_that_wants_to_run_by_itself_neither_leads_nor_follows() -> None:
    """It has no key."""
    followers = Followers()
    followers.lead(turn(item("leader", None), item("other")))
    assert not followers.follow(item("a", None))


def test_an_interactive_job_does_not_follow_a_bulk_batch_that_stands_back() -> None:
    """It does once that runs, or has the rank of an interactive one; a bulk job follows it at once."""
    followers = Followers()
    bulk = turn(item("leader"), rank=Rank.BULK)
    followers.lead(bulk)
    assert not followers.follow(item("urgent"))
    assert followers.follow(item("patient", interactive=False))
    bulk.running = True
    assert followers.follow(item("urgent"))
    bulk.running, bulk.rank = False, Rank.INTERACTIVE
    assert followers.follow(item("urgent too"))


def test_the_latest_of_two_batches_with_one_input_leads() -> None:
    """An interactive job that would not wait for a bulk one leads; whoever ends first answers all."""
    followers = Followers()
    followers.lead(turn(item("bulk", interactive=False), rank=Rank.BULK))
    first = item("first", interactive=False)
    assert followers.follow(first)
    followers.lead(turn(item("urgent")))
    second = item("second")
    assert followers.follow(second)
    assert followers.leave("k") == [first, second]
