"""A job in a batcher's hands is what the pure rooms plan with."""

from batcher.item import Item
from batcher.window import Window
from inferq.jobs import Job
from inferq.steps import Origin


def test_an_item_waits_in_a_window() -> None:
    """It has the tokens and messages that the shell needs beside what a window asks for; nothing is charged yet."""
    job = Job(job_id="a", model="m", text="t", created_ms=0)
    item = Item(
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
    )
    window: Window[Item] = Window()
    window.add(item)
    assert window.get("a") is item
    assert item.charges == 0
