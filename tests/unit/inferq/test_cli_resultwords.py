"""Results in a few words."""

from typing import Any

import pytest

from inferq.cli.resultwords import in_brief


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"label": "GOOD", "score": 0.75, "scores": {"GOOD": 0.75}}, "GOOD 0.7500"),
        ({"labels": ["b", "a"], "scores": {"a": 0.6, "b": 0.9, "c": 0.1}}, "b 0.9000, a 0.6000"),
        ({"labels": [], "scores": {"a": 0.25}}, "no label"),
        ({"values": {"stars": 4.31, "rank": -2.0}}, "stars 4.3100, rank -2.0000"),
        ({"embedding": [0.1, 0.2, 0.3], "truncated": False}, "embedding of 3 0.1 0.2 0.3"),
        ({"embedding": [0.12345, -2.0, 3e-9, 4.0, 5.0]}, "embedding of 5 0.1235 -2 3e-09 4 …"),
        (
            {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1, 0.5]}]},
            "y FP32 [1, 2] 1 0.5",
        ),
        (
            {
                "outputs": [
                    {"name": "i", "datatype": "INT64", "shape": [1], "data": [1234567]},
                    {"name": "b", "datatype": "BOOL", "shape": [], "data": [True]},
                ]
            },
            "i INT64 [1] 1234567, b BOOL [] true",
        ),
    ],
)
def test_each_kind_has_its_words(result: dict[str, Any], words: str) -> None:
    """Whatever is in it, one line."""
    assert in_brief(result) == words


def test_names_cannot_break_the_line() -> None:
    """They are whatever the model's makers wrote."""
    for result in (
        {"label": "a\nb\x1b", "score": 0.5},
        {"labels": ["a\nb\x1b"], "scores": {"a\nb\x1b": 0.5}},
        {"values": {"a\nb\x1b": 0.5}},
    ):
        assert not {"\n", "\x1b"} & set(in_brief(result))
