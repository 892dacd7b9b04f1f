"""What a client may say."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.requests import (
    Auth,
    BadMessage,
    Subscribe,
    Unsubscribe,
    could_be_a_job,
    decode_client_message,
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"action":"subscribe","job_ids":["a"]}', Subscribe(["a"], {})),
        ('{"action":"subscribe","job_ids":["a","b"],"after":{"b":0}}', Subscribe(["a", "b"], {"b": 0})),
        ('{"job_ids":["a"],"action":"unsubscribe"}', Unsubscribe(["a"])),
        ('{"action":"auth","key":""}', Auth("")),
        (
            json.dumps({"action": "subscribe", "job_ids": ["x" * 100] * 5000}),
            Subscribe(["x" * 100] * 5000, {}),
        ),
    ],
)
def test_what_is_allowed_is_understood(text: str, message: object) -> None:
    """In any order of the fields."""
    assert decode_client_message(text.encode()) == message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the message is not JSON"),
        ("{", "the message is not JSON"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        ("{}", "`action` must be subscribe, unsubscribe or auth"),
        ('{"action":"secret"}', "`action` must be subscribe, unsubscribe or auth"),
        ('{"action":1}', "`action` must be subscribe, unsubscribe or auth"),
        ('{"action":"subscribe"}', "Object missing required field `job_ids`"),
        ('{"action":"subscribe","job_ids":null}', "Expected `array`, got `null` - at `$.job_ids`"),
        ('{"action":"subscribe","job_ids":[]}', "Expected `array` of length >= 1 - at `$.job_ids`"),
        ('{"action":"subscribe","job_ids":[""]}', "Expected `str` of length >= 1 - at `$.job_ids[0]`"),
        (
            '{"action":"subscribe","job_ids":["a"],"secret":1}',
            "unknown field: a message has action and job_ids, after or key",
        ),
        (
            '{"action":"subscribe","job_ids":["a"],"after":{"a":-1}}',
            "Expected `int` >= 0 - at `$.after[...]`",
        ),
        ('{"action":"auth"}', "Object missing required field `key`"),
        (json.dumps({"action": "auth", "key": "x" * 256}), "Expected `str` of length <= 255 - at `$.key`"),
        (
            json.dumps({"action": "unsubscribe", "job_ids": ["x"] * 5001}),
            "Expected `array` of length <= 5000 - at `$.job_ids`",
        ),
    ],
)
def test_anything_else_is_explained(text: str, said: str) -> None:
    """Field and limit are named, and nothing of the message is quoted."""
    with pytest.raises(BadMessage) as refused:
        decode_client_message(text.encode())
    assert str(refused.value) == said


@given(st.binary(max_size=200))
def test_junk_is_refused_as_such(data: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(BadMessage):
        decode_client_message(data)


def test_a_key_is_not_shown() -> None:
    """Not even in what a debugger or a traceback prints."""
    assert "secret" not in repr(decode_client_message(b'{"action":"auth","key":"secret"}'))


@pytest.mark.parametrize(
    ("job_id", "could"),
    [
        ("0" * 32, True),
        ("a_B.9:-", True),
        ("", False),
        ("a b", False),
        ("ä", False),
        ('"', False),
        ("a\n", False),
    ],
)
def test_what_cannot_be_an_id_is_told(job_id: str, could: bool) -> None:
    """It is never looked for."""
    assert could_be_a_job(job_id) is could
