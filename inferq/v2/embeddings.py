"""`POST /v1/embeddings`, shaped as OpenAI's: texts in, vectors out. Pure.

What a call cost is told in words, as no result says how many tokens there were.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from inferq.catalog import Catalog, Task, find, require_known
from inferq.limits import MAX_INPUTS, MAX_MODEL, MAX_TEXT
from inferq.results import AnyResult
from inferq.tensors.jsondata import is_list
from inferq.tensors.shortlist import ShortList
from inferq.tensors.tensor import TensorError
from inferq.v2.answers import vectors_of
from inferq.v2.calls import Call
from inferq.v2.simple import decode, floats_of, refused
from inferq.v2.texts import check_text


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /v1/embeddings`: a text or several; other fields than these say nothing."""

    input: msgspec.Raw
    model: Annotated[str, msgspec.Meta(max_length=MAX_MODEL)]
    encoding_format: Literal["float", "base64"] = "float"
    # Refused, not passed over: whoever asks for shorter vectors would take longer ones for them.
    dimensions: None = None


class EmbeddingItem(msgspec.Struct, frozen=True, kw_only=True):
    """The vector of one text: numbers, or their little-endian bytes as FP32 in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a call cost."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `POST /v1/embeddings`; ``data`` is in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str
    usage: Usage


ALLOWED: Final = {
    "input": f"must be a string of 1 to {MAX_TEXT} characters, or a list of 1 to {MAX_INPUTS} of them, and no tokens",
    "model": "must be the name of an embedding model",
    "encoding_format": "must be float or base64",
    "dimensions": "must be left out: a vector has as many as its model gives",
}
_decoder = msgspec.json.Decoder(EmbeddingRequest)
_several: Final = ShortList(str, MAX_INPUTS)


def parse(body: bytes, catalog: Catalog, *, cached: bool = True) -> tuple[EmbeddingRequest, Call]:
    """Return what a body asks, and the call that it makes.

    Raises:
        InvalidRequest: a field is not what it must be, or the model is none for embeddings.
        ModelNotFound: there is no such model.
        Unavailable: what the model answers is not known yet.
    """
    request = decode(body, _decoder, ALLOWED)
    card = require_known(find(catalog, request.model))
    if card.task is not Task.EMBEDDING:
        raise refused("model", f"{ALLOWED['model']}, and {card.name!r} is none")
    texts = _texts(request.input)
    for text in texts:
        try:
            check_text(text)
        except TensorError as error:
            raise refused("input", error.detail) from None
    return request, Call(card=card, texts=texts, cached=cached)


def answer(request: EmbeddingRequest, call: Call, results: Sequence[AnyResult]) -> EmbeddingAnswer:
    """Return the answer to a request."""
    data = [
        EmbeddingItem(index=index, embedding=_written(vector, request.encoding_format))
        for index, vector in enumerate(vectors_of(results))
    ]
    words = sum(len(text.split()) for text in call.texts)
    usage = Usage(prompt_tokens=words, total_tokens=words)
    return EmbeddingAnswer(data=data, model=call.card.name, usage=usage)


def _texts(raw: msgspec.Raw) -> tuple[str, ...]:
    try:
        return tuple(_several.decode(raw)) if is_list(raw) else (msgspec.json.decode(raw, type=str),)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refused("input", ALLOWED["input"]) from None


def _written(vector: bytes, form: str) -> list[float] | str:
    return floats_of(vector) if form == "float" else base64.b64encode(vector).decode()
