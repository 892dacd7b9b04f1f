"""Texts to labels, values or embeddings: tokens in, a row of numbers out, and what the model's head makes of it."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from batcher.engine import Answer, Engine
from batcher.item import Item
from batcher.ledger import MAX_DETAIL
from batcher.scores import holding, scores, sigmoids, values
from batcher.task import AnyAnswer, Read
from batcher.tokenizer import InputRefused, TextTokenizer
from batcher.wire import Logits
from inferq.errors import OperatorError
from inferq.head import SINGLE_LABEL, Head, Kind
from inferq.jobs import ErrorCode, Job, JobError, Result
from inferq.results import AnyResult, EmbeddingResult, LabelsResult, ValuesResult, encode_result

# A number takes four bytes, and up to so many times as many in JSON.
_FLOAT_BYTES: Final = 4
_IN_JSON: Final = 5


class TextTask:
    """A text model; ``labels`` name the numbers that it gives, but for an embedding."""

    def __init__(
        self, engine: Engine, tokenizer: TextTokenizer, labels: Sequence[str], head: Head = SINGLE_LABEL
    ) -> None:
        self._engine, self._tokenizer, self._labels, self._head = engine, tokenizer, labels, head

    def read(self, job: Job) -> Read:
        """Return a text's tokens, or those of a pair; raises `InputRefused`."""
        if job.inputs:
            raise InputRefused("the model takes a text, and these are tensors")
        encoded = self._tokenizer.encode(job.text, job.text_pair)
        return Read(
            length=len(encoded.ids), ids=encoded.ids, truncated=encoded.truncated, types=encoded.types
        )

    async def run(self, items: Sequence[Item], *, timeout_ms: float, wide: bool) -> AnyAnswer:
        """Run a batch; raises `BatchRaised` and `EngineLost`."""
        types = [item.types for item in items]
        return await self._engine.run(
            [item.ids for item in items], wide=wide, timeout_ms=timeout_ms, types=types
        )

    def results(self, answer: AnyAnswer, items: Sequence[Item]) -> list[AnyResult | JobError]:
        """Return what each text comes to."""
        assert isinstance(answer, Answer), "tokens are answered with rows of numbers"
        if self._head.kind is Kind.EMBEDDING:
            return [
                self._embedding(row, item.truncated) for row, item in zip(answer.logits, items, strict=True)
            ]
        rows = zip(answer.logits.tolist(), items, strict=True)
        return [self._labelled(row, item.truncated) for row, item in rows]

    def _labelled(self, row: Sequence[float], truncated: bool) -> AnyResult | JobError:
        try:
            return labelled(row, self._labels, self._head, truncated=truncated)
        except ValueError as error:
            return JobError(code=ErrorCode.INFERENCE_FAILED, detail=str(error)[:MAX_DETAIL])

    def _embedding(self, row: Logits, truncated: bool) -> AnyResult | JobError:
        if not np.isfinite(row).all():
            return JobError(
                code=ErrorCode.INFERENCE_FAILED, detail="the embedding holds a number that is not finite"
            )
        return EmbeddingResult(vector=row.astype("<f4").tobytes(), truncated=truncated)


def check_size(head: Head, width: int, labels: Sequence[str], *, max_output_bytes: int) -> None:
    """Refuse a model whose every record would be larger than one with outputs of so many bytes may be.

    Raises:
        OperatorError: it is one; the text says what is too long.
    """
    cure = f"INFERQ_MAX_OUTPUT_BYTES={max_output_bytes} is too little for it"
    if head.kind is Kind.EMBEDDING:
        if width * _FLOAT_BYTES > max_output_bytes:
            raise OperatorError(
                f"an embedding of this model is {width} numbers of {_FLOAT_BYTES} bytes: {cure}"
            )
        return
    longest = LabelsResult(labels=tuple(labels), scores=dict.fromkeys(labels, 0.123456), truncated=False)
    record_bytes = len(encode_result(longest))
    if record_bytes > max_output_bytes * _IN_JSON:
        raise OperatorError(
            f"an answer with this model's {width} labels may have {record_bytes} bytes: {cure}"
        )


def labelled(row: Sequence[float], labels: Sequence[str], head: Head, *, truncated: bool) -> AnyResult:
    """Return what a row of logits means; raises ValueError when they are not finite or do not fit the labels."""
    if head.kind is Kind.SINGLE:
        found = scores(row, labels)
        return Result(label=found["label"], score=found["score"], scores=found["scores"], truncated=truncated)
    if head.kind is Kind.VALUES:
        return ValuesResult(values=values(row, labels), truncated=truncated)
    scored = sigmoids(row, labels)
    return LabelsResult(labels=tuple(holding(scored, head.threshold)), scores=scored, truncated=truncated)
