"""Texts to labels: tokens in, logits out, a softmax over them."""

from collections.abc import Sequence

from batcher.engine import Answer, Engine
from batcher.item import Item
from batcher.ledger import MAX_DETAIL
from batcher.scores import scores
from batcher.task import AnyAnswer, Read
from batcher.tokenizer import InputRefused, TextTokenizer
from inferq.jobs import ErrorCode, Job, JobError, Result
from inferq.results import AnyResult


class TextTask:
    """A text classifier; ``labels`` name its logits."""

    def __init__(self, engine: Engine, tokenizer: TextTokenizer, labels: Sequence[str]) -> None:
        self._engine, self._tokenizer, self._labels = engine, tokenizer, labels

    def read(self, job: Job) -> Read:
        """Return a text's tokens; raises `InputRefused`."""
        if job.inputs:
            raise InputRefused("the model takes a text, and these are tensors")
        encoded = self._tokenizer.encode(job.text)
        return Read(length=len(encoded.ids), ids=encoded.ids, truncated=encoded.truncated)

    async def run(self, items: Sequence[Item], *, timeout_ms: float, wide: bool) -> AnyAnswer:
        """Run a batch; raises `BatchRaised` and `EngineLost`."""
        return await self._engine.run([item.ids for item in items], wide=wide, timeout_ms=timeout_ms)

    def results(self, answer: AnyAnswer, items: Sequence[Item]) -> list[AnyResult | JobError]:
        """Return each text's labels."""
        assert isinstance(answer, Answer), "tokens are answered with logits"
        return [self._result(row, item) for row, item in zip(answer.logits.tolist(), items, strict=True)]

    def _result(self, row: Sequence[float], item: Item) -> AnyResult | JobError:
        try:
            found = scores(row, self._labels)
        except ValueError as error:
            return JobError(code=ErrorCode.INFERENCE_FAILED, detail=str(error)[:MAX_DETAIL])
        return Result(
            label=found["label"], score=found["score"], scores=found["scores"], truncated=item.truncated
        )
