"""A job in a batcher's hands, from its delivery to its end. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from batcher.waiting import Waiting
from inferq.messages import Delivery
from inferq.steps import Origin
from inferq.tensors.tensor import Tensor


@dataclass(kw_only=True, eq=False)
class Item(Waiting):
    """A job with its messages and its input: the tokens of a text, or tensors.

    ``arrived_ms`` is on the wall's clock. ``deliveries`` are the messages to settle when the job has ended: more than
    one when the broker delivered it again meanwhile. ``charges`` are the attempts that were charged to it.
    """

    origin: Origin
    deliveries: list[Delivery]
    ids: Sequence[int]
    truncated: bool
    arrived_ms: float
    tokenize_ms: float
    charges: int = 0
    inputs: tuple[Tensor, ...] = ()
    types: Sequence[int] = ()
