"""What a line of input asks for, and what is refused before it is sent."""

import json

import pytest

from inferq.cli.asked import LONGEST_LINE_BYTES, Asked, Unreadable, from_json, from_text, with_pair
from inferq.sdk.batches import Options

COMMON = Options(model="builtin", priority="bulk", deadline_ms=500, webhook="https://a.example/")


def test_a_text_asks_for_what_all_ask() -> None:
    """Only what is given is sent, so the API decides the rest."""
    assert from_text("good", COMMON) == Asked(text="good", options=COMMON)
    assert Options().fields == {}
    assert COMMON.fields == {
        "model": "builtin", "priority": "bulk", "deadline_ms": 500, "webhook": "https://a.example/",
    }  # fmt: skip  # as they are given


def test_an_object_asks_for_itself_first() -> None:
    """What it does not say is as the options say."""
    assert from_json('{"text":"good"}', COMMON) == Asked(text="good", options=COMMON)
    own = {"text": "x", "model": "m", "priority": "interactive", "deadline_ms": 7, "webhook": "https://b/"}
    asked = from_json(json.dumps(own), COMMON)
    assert isinstance(asked, Asked)
    assert {"text": asked.text, **asked.options.fields} == own


def test_an_object_may_want_no_webhook() -> None:
    """An empty one is asked for as such: the API takes it for none, whatever the key has."""
    asked = from_json('{"text":"x","webhook":""}', COMMON)
    assert isinstance(asked, Asked)
    assert asked.options.fields["webhook"] == ""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("good", "malformed"),
        ('{"txet":"good"}', "txet"),
        ('{"text":1}', "Expected `str`, got `int` - at `$.text`"),
        ('["good"]', "Expected `object`, got `array`"),
        ("[" * 10_000, "Expected `object`"),
        ('{"text":' + "[" * 5_000, "got `array`"),
    ],
)
def test_a_line_that_is_no_such_object_says_why(line: str, why: str) -> None:
    """In one line, which the place of the line will show; nothing is raised."""
    refused = from_json(line, Options())
    assert isinstance(refused, Unreadable)
    assert refused.detail.startswith("the line is not what the API takes: ")
    assert why in refused.detail
    assert "\n" not in refused.detail


@pytest.mark.parametrize("read", [from_text, from_json])
def test_lines_that_cannot_be_sent_are_refused(read: type) -> None:
    """Neither bytes that are no UTF-8 nor a line that no request holds leaves this machine."""
    refused = [read("a\udcff", Options()), read("ü" * (LONGEST_LINE_BYTES // 2) + "x", Options())]
    assert [one.detail for one in refused] == [
        "the line is not UTF-8", "the line is longer than 65,536 bytes",
    ]  # fmt: skip  # side by side


def test_a_pair_is_a_lines_own_or_everybodys() -> None:
    """A line's own second text counts; what cannot be sent stays as it is."""
    own = from_json('{"text":"a","text_pair":"b"}', COMMON)
    assert own == Asked(text="a", options=COMMON, text_pair="b")
    assert with_pair(own, "c") == own
    alone = from_text("a", COMMON)
    assert with_pair(alone, None) == alone
    assert with_pair(alone, "c") == Asked(text="a", options=COMMON, text_pair="c")
    refused = Unreadable(text="a", detail="d")
    assert with_pair(refused, "c") is refused
