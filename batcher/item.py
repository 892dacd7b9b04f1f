"""A job in a batcher's hands, from its delivery to its end. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from batcher.outcome import Outcome
from batcher.waiting import Waiting
from inferq.errors import HttpError
from inferq.messages import Delivery
from inferq.steps import Origin
from inferq.tensors.tensor import Tensor


@dataclass(kw_only=True, eq=False)
class Item(Waiting):
    """A job with its messages and its input: the tokens of a text, or tensors.

    ``arrived_ms`` is on the wall's clock. ``deliveries`` are the messages to settle when the job has ended: more than
    one when the broker delivered it again meanwhile. ``charges`` are the attempts that were charged to it, ``begun``
    says that we may have started it in the store.

    One that came past the queue has neither messages nor a record: ``tell`` is told what it comes to, or why it comes
    to nothing. ``abandoned`` says that nobody waits for that any more.
    """

    origin: Origin
    deliveries: list[Delivery]
    ids: Sequence[int]
    truncated: bool
    arrived_ms: float
    tokenize_ms: float
    charges: int = 0
    begun: bool = False
    inputs: tuple[Tensor, ...] = ()
    types: Sequence[int] = ()
    tell: Callable[[Outcome | HttpError], None] | None = None
    abandoned: bool = False


def apart(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return the jobs that came past the queue, and those that came out of it."""
    direct = [item for item in items if item.tell is not None]
    return direct, [item for item in items if item.tell is None] if direct else list(items)


def tell(item: Item, said: Outcome | HttpError) -> None:
    """Say to a job that came past the queue what it comes to."""
    assert item.tell is not None, "a record says it of others"
    item.tell(said)
