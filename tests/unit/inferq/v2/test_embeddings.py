"""Texts to vectors, shaped as OpenAI's."""

import base64
import json
import struct
from typing import Any

import pytest

from inferq.catalog import Catalog
from inferq.errors import InvalidRequest, ModelNotFound, Unavailable
from inferq.v2.embeddings import answer, parse
from inferq.v2.requests import output_names
from tests.unit.inferq.v2.cards import E5, ELSEWHERE, TEXT
from tests.unit.inferq.v2.test_answers import vector

CATALOG = Catalog(default="builtin", models={"builtin": TEXT, "e5": E5})


def parsed(body: Any) -> Any:
    """Parse a body."""
    return parse(json.dumps(body).encode(), CATALOG)


@pytest.mark.parametrize(("given", "texts"), [("a", ("a",)), (["a", "b"], ("a", "b"))])
def test_one_text_or_several(given: Any, texts: tuple[str, ...]) -> None:
    """What other clients send besides says nothing."""
    request, call = parsed({"input": given, "model": "e5", "user": "u", "dimensions": None})
    assert (call.texts, call.card, request.encoding_format) == (texts, E5, "float")
    assert output_names(call.card) == ("embedding",)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"model": "e5"}, "input is missing"), ({"input": "a"}, "model is missing"),
        ({"input": [], "model": "e5"}, "input"),
        ({"input": [1, 2], "model": "e5"}, "input must be a string of 1 to 2000"),
        ({"input": ["a"] * 257, "model": "e5"}, "or a list of 1 to 256 of them"),
        ({"input": [], "model": "e5"}, "or a list of 1 to 256 of them"),
        ({"input": " ", "model": "e5"}, "white"),
        ({"input": "a", "model": "e5", "encoding_format": "int8"}, "encoding_format must be float or base64"),
        ({"input": "a", "model": "e5", "dimensions": 256}, "dimensions must be left out"),
        ({"input": "a", "model": "builtin"}, "model must be the name of an embedding model, and 'builtin' is none"),
    ],
)  # fmt: skip  # bodies and faults side by side
def test_what_is_refused(body: Any, fault: str) -> None:
    """The text names the field and what it may be."""
    with pytest.raises(InvalidRequest) as caught:
        parsed(body)
    assert fault in caught.value.detail


def test_an_unknown_model() -> None:
    """It is not found."""
    with pytest.raises(ModelNotFound):
        parsed({"input": "a", "model": "nowhere"})


def test_a_model_that_is_not_known_yet() -> None:
    """It may be one of embeddings: that is said once its batcher has said it, and is no fault of the caller's."""
    catalog = Catalog(default="elsewhere", models={"elsewhere": ELSEWHERE})
    with pytest.raises(
        Unavailable, match="'elsewhere' takes and answers is known once a batcher has its files"
    ):
        parse(b'{"input": "a", "model": "elsewhere"}', catalog)


def test_vectors_in_the_order_of_the_texts() -> None:
    """As numbers or in base64; words are counted."""
    results = [vector(0.5, 1.0), vector(2.0, 3.0)]
    request, call = parsed({"input": ["two words", "b"], "model": "e5"})
    found = answer(request, call, results)
    assert [(one.index, one.embedding) for one in found.data] == [(0, [0.5, 1.0]), (1, [2.0, 3.0])]
    assert (found.object, found.model, found.usage.prompt_tokens, found.usage.total_tokens) == (
        "list",
        "e5",
        3,
        3,
    )
    request, call = parsed({"input": ["two words", "b"], "model": "e5", "encoding_format": "base64"})
    packed = answer(request, call, results).data[0].embedding
    assert isinstance(packed, str)
    assert struct.unpack("<2f", base64.b64decode(packed)) == (0.5, 1.0)
