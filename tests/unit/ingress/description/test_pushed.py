"""The description of what is pushed is AsyncAPI, complete, and says what frames are."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from inferq.frames import frame, problem
from inferq.jobs import Status
from inferq.snapshots import snapshot
from ingress.description.examples import EXAMPLES, JOB_ID
from ingress.description.frames import MEANINGS, MOST_JOB_IDS, SAID
from ingress.description.pushed import asyncapi
from notifier.requests import BadMessage, decode_client_message
from tests.messages import Messages

SCHEMA = json.loads(Path("tests/data/asyncapi-3.0.0.json").read_text(encoding="utf-8"))
DOCUMENT = asyncapi(version="1.2.3", stream_url="ws://127.0.0.1:8081")
MESSAGES = Messages(DOCUMENT)


def references(value: Any) -> Iterator[str]:
    """Return every reference in a part of the document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


@pytest.mark.parametrize("stream_url", ["ws://127.0.0.1:8081", "wss://a.example/push/", "ws://[::1]:8081"])
def test_the_document_is_asyncapi(stream_url: str) -> None:
    """It validates against the schema that AsyncAPI publishes, wherever the notifier is."""
    jsonschema_rs.validator_for(SCHEMA).validate(asyncapi(version="1", stream_url=stream_url))


@pytest.mark.parametrize(
    "breaking",
    [
        lambda it: it.pop("info"),
        lambda it: it["operations"]["admit"].pop("action"),
        lambda it: it["channels"]["job"].update(wrong=1),
        lambda it: it["components"]["schemas"]["JobFrame"].update(type="strange"),
        lambda it: it["channels"]["job"]["bindings"]["ws"].update(method="PUT"),
        lambda it: it["servers"]["notifier"].pop("host"),
        lambda it: it["components"]["messages"]["auth"].update(payloads={}),
    ],
)
def test_a_mistake_would_be_found(breaking: Callable[[dict[str, Any]], None]) -> None:
    """The schema is not one that takes anything."""
    document = copy.deepcopy(DOCUMENT)
    breaking(document)
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(document)


def test_every_reference_leads_somewhere_and_every_part_is_used() -> None:
    """Nothing is missing, and nothing is left over."""
    used = set(references(DOCUMENT))
    for reference in used:
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        assert found, reference
    parts = {
        f"#/components/{place}/{name}" for place, named in DOCUMENT["components"].items() for name in named
    }
    assert parts - used == set()
    spoken = {
        reference for one in DOCUMENT["operations"].values() for reference in references(one["messages"])
    }
    assert spoken == {
        f"#/channels/{name}/messages/{message}"
        for name, channel in DOCUMENT["channels"].items()
        for message in channel["messages"]
    }


def test_every_example_is_valid() -> None:
    """Each message takes what is shown of it."""
    for name, message in DOCUMENT["components"]["messages"].items():
        assert message["examples"], name
        for example in message["examples"]:
            MESSAGES.validates(name, example["payload"])


def test_every_field_has_a_meaning() -> None:
    """The words and the types tell of the same fields."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if "properties" in schema:
            assert set(schema["properties"]) == set(MEANINGS[name]), name
            assert all(field["description"].endswith(".") for field in schema["properties"].values())


@pytest.mark.parametrize("name", ["queued", "done", "failed", "cancelled"])
def test_frames_are_as_described(name: str) -> None:
    """What watchers are sent is a message of the document, and no other."""
    event = snapshot(json.dumps(EXAMPLES[name][1]).encode())
    MESSAGES.validates("change", json.loads(frame(event)))
    MESSAGES.validates("snapshot", json.loads(frame(event, "snapshot")))
    assert not MESSAGES.valid("snapshot", json.loads(frame(event)))
    assert not MESSAGES.valid("change", json.loads(frame(event, "snapshot")))
    assert not MESSAGES.valid("error", json.loads(frame(event)))
    MESSAGES.validates("record", json.loads(event.record))


def test_every_status_has_its_kind_of_frame() -> None:
    """And a snapshot shows any."""
    kinds = DOCUMENT["components"]["schemas"]["JobFrame"]["properties"]["type"]["enum"]
    assert set(kinds) == {"snapshot", *(f"job.{status}" for status in Status)}


def test_errors_are_as_described() -> None:
    """With a job and without."""
    for found in (problem("not_found", "x", JOB_ID), problem("bad_message", "x")):
        MESSAGES.validates("error", json.loads(found))
    assert not MESSAGES.valid("error", {"type": "error", "code": "not_found"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", {"action": "unsubscribe", "job_ids": [JOB_ID]}),
        ("subscribe", {"action": "subscribe"}),
        ("subscribe", {"action": "subscribe", "job_ids": ["x"]}),
        ("subscribe", {"action": "subscribe", "job_ids": [JOB_ID], "after": {JOB_ID: -1}}),
        ("subscribe", {"action": "subscribe", "job_ids": [JOB_ID], "after": {"x": 1}}),
        ("subscribe", {"action": "subscribe", "job_ids": [JOB_ID], "more": 1}),
        ("unsubscribe", {"action": "unsubscribe", "job_ids": JOB_ID}),
        ("auth", {"action": "auth"}),
        ("auth", {"action": "auth", "key": ""}),
        ("auth", {"action": "auth", "key": 1}),
    ],
)
def test_what_is_no_message_is_none(name: str, value: Any) -> None:
    """A field too many, a wrong action, and what is no id."""
    assert not MESSAGES.valid(name, value)


def test_examples_of_what_clients_say_are_what_the_types_take() -> None:
    """The types are the rule that the schemas are made of."""
    for name, kind in zip(("subscribe", "unsubscribe", "auth"), SAID, strict=True):
        for example in DOCUMENT["components"]["messages"][name]["examples"]:
            msgspec.convert(example["payload"], kind)


@pytest.mark.parametrize("name", ["subscribe", "unsubscribe", "auth"])
def test_what_clients_say_is_what_the_notifier_takes(name: str) -> None:
    """It decodes each example, and refuses a field too many and more jobs than are described."""
    for example in DOCUMENT["components"]["messages"][name]["examples"]:
        decode_client_message(msgspec.json.encode(example["payload"]))
        longer = {**example["payload"], "more": 1}
        assert not MESSAGES.valid(name, longer)
        with pytest.raises(BadMessage):
            decode_client_message(msgspec.json.encode(longer))
    if name != "auth":
        for count in (0, 1, MOST_JOB_IDS, MOST_JOB_IDS + 1):
            message = {"action": name, "job_ids": [JOB_ID] * count}
            try:
                decode_client_message(msgspec.json.encode(message))
            except BadMessage:
                taken = False
            else:
                taken = True
            assert MESSAGES.valid(name, message) == taken == (0 < count <= MOST_JOB_IDS)
