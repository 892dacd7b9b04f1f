"""A job in a batcher's hands is what the pure rooms plan with."""

from typing import Any

from batcher.item import Item, apart, tell
from batcher.outcome import Outcome
from batcher.window import Window
from inferq.errors import HttpError, TimedOut
from inferq.jobs import Job
from inferq.steps import Origin


def made(**fields: Any) -> Item:
    """A job of three tokens."""
    job = Job(job_id="a", model="m", text="t", created_ms=0)
    return Item(
        job_id="a",
        length=3,
        arrived_s=1.0,
        budget_s=2.0,
        origin=Origin(job=job, queue="q", message=b""),
        deliveries=[],
        ids=range(3),
        truncated=False,
        arrived_ms=0.0,
        tokenize_ms=0.0,
        **fields,
    )


def test_an_item_waits_in_a_window() -> None:
    """It has the tokens and messages that the shell needs beside what a window asks for; nothing is charged yet."""
    item = made()
    window: Window[Item] = Window()
    window.add(item)
    assert window.get("a") is item
    assert item.charges == 0


def test_those_past_the_queue_are_told_what_they_come_to() -> None:
    """They are told apart from those that have a record, in their order."""
    told: list[Outcome | HttpError] = []
    direct, queued, other = made(tell=told.append), made(), made(tell=told.append)
    assert apart([direct, queued, other]) == ([direct, other], [queued])
    assert apart([queued]) == ([], [queued])
    late = TimedOut("late")
    tell(direct, late)
    assert told == [late]
    assert not direct.abandoned
