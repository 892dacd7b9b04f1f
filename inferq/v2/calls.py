"""A synchronous call, and what a service that answers such calls can do. Pure.

Whoever asks may leave, and no call takes longer than it says: then `Backend.answers` is cancelled, and the backend sees
to it that what was begun for the call costs nothing more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from inferq.apikeys import Caller
from inferq.catalog import Catalog, ModelCard
from inferq.jobs import Priority
from inferq.results import AnyResult
from inferq.tensors.tensor import Tensor

# No call waits longer, and one that says nothing of it waits so long.
MOST_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Call:
    """What is to be computed: some texts, each of which is a job, or the tensors of one job.

    ``pairs`` are the second texts, one for each of ``texts``; it is empty where these stand alone.
    ``timeout_s`` is more than 0 and at most `MOST_S`; ``cached`` says whether an answer from a cache will do.
    """

    card: ModelCard
    texts: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    priority: Priority = Priority.INTERACTIVE
    timeout_s: float = MOST_S
    cached: bool = True

    @property
    def paired(self) -> list[tuple[str, str]]:
        """Each text with its second one, which is empty where there is none."""
        return list(zip(self.texts, self.pairs or ("",) * len(self.texts), strict=True))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one job of a call came to, and where; ``inference_us`` is how long its batch, or its look-up, took."""

    result: AnyResult
    node_id: str
    cached: bool
    inference_us: int


class Backend(Protocol):
    """A service that answers calls."""

    @property
    def catalog(self) -> Catalog:
        """The models that may be called."""

    async def complaint(self) -> str:
        """Say why no call would be answered at present; empty when all is well."""

    def served(self, model: str) -> bool:
        """Say whether somebody computes this model at present."""

    async def answers(self, call: Call, caller: Caller) -> Sequence[Answer]:
        """Return an answer for each job of a call; raises `HttpError`."""
