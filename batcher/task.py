"""What a batcher's kind of model makes of a job, and of the engine's answer.

A batcher serves one model, and so has one task: texts to labels, or tensors to tensors. All else (queues, window,
policy, lanes, isolation, settling) is the same for every kind.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from batcher.engine import Answer, TensorAnswer
from batcher.item import Item
from inferq.jobs import Job, JobError
from inferq.results import AnyResult
from inferq.tensors.tensor import Tensor

AnyAnswer = Answer | TensorAnswer


class Read(NamedTuple):
    """A job's input as the engine will have it.

    ``types`` says of each token of a pair which text it is of. ``length`` is what it counts in a batch: tokens of a
    text, rows of tensors. Only jobs of equal ``group`` share one.
    """

    length: int
    ids: Sequence[int] = ()
    truncated: bool = False
    inputs: tuple[Tensor, ...] = ()
    group: str = ""
    types: Sequence[int] = ()


NOT_READ = Read(length=0)


class Task(Protocol):
    """One kind of model."""

    def read(self, job: Job) -> Read:
        """Return a job's input; raises `InputRefused`."""

    async def run(self, items: Sequence[Item], *, timeout_ms: float, wide: bool) -> AnyAnswer:
        """Run a batch; raises `BatchRaised` and `EngineLost`."""

    def results(self, answer: AnyAnswer, items: Sequence[Item]) -> list[AnyResult | JobError]:
        """Return what each job of a batch comes to."""
