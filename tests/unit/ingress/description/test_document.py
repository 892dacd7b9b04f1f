"""The description is valid, complete, and says what the types and the decoder do."""

import copy
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
import schemathesis

from inferq import errors, problems
from inferq.catalog import ModelCard, Task
from inferq.errors import HttpError
from inferq.heartbeats import BatchTotals, CacheTotals
from inferq.jobs import FINAL, JobRecord
from inferq.keyring import KeyRing
from inferq.server import Checks
from inferq.snapshots import snapshot
from inferq.telemetry import Metrics
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature
from inferq.v2 import embeddings, simple
from inferq.v2 import requests as calls
from inferq.v2.routes import SyncRoutes
from ingress import requests
from ingress.answers import Accepted, AcceptedItem, BatchAnswer, BatchRefused, RefusedItem
from ingress.app import Parts, make_routes
from ingress.description.document import document
from ingress.description.examples import ERRORS, EXAMPLES, JOB_ID, as_problem
from ingress.description.meanings import FIELDS
from ingress.description.operations import OPERATIONS
from ingress.description.parts import HEADER_FIELDS
from ingress.description.schemas import NOT_BLANK
from ingress.eventstream import message
from ingress.statistics import (
    BatcherFigures,
    CacheFigures,
    LatencyFigures,
    Percentiles,
    QueueFigures,
    RoutingFigures,
    Statistics,
)
from ingress.tensors import tensors_of
from tests.described import Described

DOCUMENT = document()
DESCRIBED = Described(DOCUMENT)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
WEBHOOK: dict[str, Any] = DOCUMENT["webhooks"]["jobEnded"]
FLOATS: Final = Port(name="x", datatype=Datatype.FP32, shape=(None, None))
ROW: Final = ModelCard(
    name="row",
    spec="row",
    task=Task.TENSOR,
    signature=Signature(inputs=(FLOATS,), outputs=(FLOATS,), shared=True),
)


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


def contents() -> Iterator[tuple[str, Any]]:
    """Return every body that is described, and where."""
    for where, answer in DESCRIBED.answers():
        for content in answer.get("content", {}).values():
            yield where, content
    asked = [*DESCRIBED.operations(), *(("webhook", *one) for one in WEBHOOK.items())]
    for path, method, operation in asked:
        for content in operation.get("requestBody", {}).get("content", {}).values():
            yield f"{method} {path}", content


def valid(name: str, value: Any) -> bool:
    """Say whether a value is one that a schema allows."""
    try:
        DESCRIBED.validates(SCHEMAS[name], value)
    except jsonschema_rs.ValidationError:
        return False
    return True


def decodes(text: bytes) -> bool:
    """Say whether the decoder takes a body; a row of numbers is decoded once its model is known."""
    try:
        request = requests.decode(text)
        if request.kind == "input_data":
            tensors_of(request, ROW, max_bytes=100)
    except errors.InvalidRequest:
        return False
    return True


def test_the_document_is_openapi() -> None:
    """It validates against the meta-schema of OpenAPI 3.1, which would find a mistake."""
    schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT)).validate()
    broken = copy.deepcopy(DOCUMENT)
    del broken["paths"]["/v1/infer"]["post"]["responses"]["202"]["description"]
    with pytest.raises(jsonschema_rs.ValidationError):
        schemathesis.openapi.from_dict(broken).validate()


def test_its_schemas_are_json_schema() -> None:
    """Each is one of JSON Schema 2020-12, with all that it refers to."""
    for name, schema in SCHEMAS.items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        DESCRIBED.validates({"anyOf": [schema, {}]}, name)


def test_every_reference_leads_somewhere_and_every_part_is_used() -> None:
    """Nothing is missing, and nothing is left over but the answers of paths that are none."""
    used = set(references(DOCUMENT))
    for reference in used:
        assert DESCRIBED.resolved({"$ref": reference}), reference
    parts = {
        f"#/components/{place}/{name}"
        for place, named in DOCUMENT["components"].items()
        if place != "securitySchemes"
        for name in named
    }
    assert parts - used == {"#/components/responses/MethodNotAllowed", "#/components/responses/NoSuchPath"}


def test_links_and_names() -> None:
    """Each operation has a name of its own, and links lead to such."""
    names = [operation["operationId"] for _, _, operation in DESCRIBED.operations()]
    assert len(set(names)) == len(names)
    links = [link for _, answer in DESCRIBED.answers() for link in answer.get("links", {}).values()]
    assert {link["operationId"] for link in links} == {"show", "events", "cancel"}
    assert {tag for _, _, one in DESCRIBED.operations() for tag in one["tags"]} == {
        tag["name"] for tag in DOCUMENT["tags"]
    }


def test_every_route_is_described_and_nothing_else() -> None:
    """The paths and methods are those of the application; HEAD comes with GET."""
    nobody: Any = None
    parts = Parts(
        infer=nobody,
        batch=nobody,
        jobs=nobody,
        events=nobody,
        calls=SyncRoutes(nobody, KeyRing(""), Metrics(), max_input_bytes=1),
        stats=nobody,
        keys=KeyRing(""),
        visitors=nobody,
        stream_url="ws://a",
    )
    checks: Checks = dict
    routes: list[Any] = list(make_routes(parts, Metrics(), checks))
    served = {(route.path, method) for route in routes for method in route.methods or () if method != "HEAD"}
    assert served == {(path, method.upper()) for path, method, _ in DESCRIBED.operations()}


def test_a_webhook_is_a_final_frame_with_three_header_fields() -> None:
    """The body is what watchers are sent, of final states alone; the fields are those of Standard Webhooks."""
    (operation,) = WEBHOOK.values()
    assert [field["name"] for field in operation["parameters"]] == [
        "webhook-id", "webhook-timestamp", "webhook-signature",
    ]  # fmt: skip  # names side by side
    for field in operation["parameters"]:
        DESCRIBED.validates(field["schema"], field["example"])
        assert field["required"]
    ended = EXAMPLES["ended"][1]
    assert valid("FinalFrame", ended)
    for wrong in ("snapshot", "job.running", "job.queued", "error"):
        assert not valid("FinalFrame", {**ended, "type": wrong})
    assert {
        kind.removeprefix("job.") for kind in SCHEMAS["FinalFrame"]["properties"]["type"]["enum"]
    } == FINAL
    assert operation["responses"].keys() == {"2XX", "410", "default"}


def test_examples_of_events_are_what_is_sent() -> None:
    """A snapshot and an end, in the words of the wire; what they carry is as the schema of their data says."""
    for name, record, kind in (("first_event", "queued", "snapshot"), ("last_event", "done", None)):
        shown = EXAMPLES[name][1]
        event = snapshot(json.dumps(EXAMPLES[record][1], separators=(",", ":")).encode())
        fields = dict(line.split(": ", 1) for line in message(event, kind).decode().rstrip().split("\n"))
        assert fields == {key: value for key, value in shown.items() if key != "retry"}
        DESCRIBED.validates(
            SCHEMAS["StreamedEvent"]["properties"]["data"]["contentSchema"], json.loads(shown["data"])
        )


def test_every_error_that_has_an_answer_is_described() -> None:
    """Each class stands under an operation, with its code in the schema, an example, and its header fields."""
    kinds = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, HttpError) and hasattr(kind, "code")
    }
    assert len(kinds) > 10
    assert {type(error) for error in ERRORS} == kinds
    described: dict[str, set[str]] = {}
    for where, answer in DESCRIBED.answers():
        for content in answer.get("content", {}).values():
            for part in content["schema"].get("allOf", []):
                for code in part.get("properties", {}).get("code", {}).get("enum", []):
                    described.setdefault(code, set()).add(where.rpartition(" ")[2])
                    if where[0].islower():
                        fields = next((kind("").headers for kind in kinds if kind.code == code), {})
                        assert set(fields) <= set(answer.get("headers", {})), where
    assert described.keys() == {kind.code for kind in kinds} | {"internal_error", "method_not_allowed"}
    for kind in kinds:
        assert str(kind.status) in described[kind.code]
    # Who is not let in is told so everywhere, and no operation says it.
    assert {*errors_of_operations(), errors.Forbidden} == kinds


def errors_of_operations() -> Iterator[type[HttpError]]:
    """Return the errors of all operations; those of inputs must be among their operation's."""
    for operation in OPERATIONS:
        assert set(operation.errors_of_inputs) <= set(operation.errors)
        yield from operation.errors


def test_every_call_with_a_key_may_be_unauthorized_and_every_call_may_fail() -> None:
    """401 stands wherever a key is asked for and nowhere else, 500 everywhere."""
    for path, method, operation in DESCRIBED.operations():
        assert ("401" in operation["responses"]) == bool(operation["security"]), f"{method} {path}"
        assert "500" in operation["responses"]
        assert operation["security"] in ([], [{}, {"bearer": []}])


def test_refusals_that_pass_say_when() -> None:
    """Every 429 and 503 under /v1/ has Retry-After, and it is required."""
    found = 0
    for where, answer in DESCRIBED.answers():
        if "/v1/" in where and where.endswith(("429", "503")):
            assert DESCRIBED.resolved(answer["headers"]["Retry-After"])["required"], where
            found += 1
    assert found > 5


def test_every_example_is_valid() -> None:
    """Each body that is described takes its examples, and most bodies have some."""
    shown = set()
    for where, content in contents():
        for name, example in content.get("examples", {}).items():
            try:
                DESCRIBED.validates(content["schema"], DESCRIBED.resolved(example)["value"])
            except jsonschema_rs.ValidationError as error:
                pytest.fail(f"{name} of {where}: {error}")
            shown.add(name)
    assert shown == set(EXAMPLES)
    for field in [
        *DOCUMENT["components"]["parameters"].values(),
        *(one for _, one in HEADER_FIELDS.values()),
    ]:
        DESCRIBED.validates(field["schema"], field["example"])


def test_examples_of_requests_go_through_the_decoder() -> None:
    """What is shown as a request is one."""
    assert requests.decode(json.dumps(EXAMPLES["text_alone"][1]).encode()).text
    whole = requests.decode(json.dumps(EXAMPLES["all_fields"][1]).encode())
    others = {"text_pair", "inputs", "input_data"}
    assert set(EXAMPLES["all_fields"][1]) == set(msgspec.structs.asdict(whole)) - others
    assert requests.decode(json.dumps(EXAMPLES["pair"][1]).encode()).text_pair
    assert requests.decode(json.dumps(EXAMPLES["tensors"][1]).encode()).kind == "inputs"
    assert requests.decode(json.dumps(EXAMPLES["vector"][1]).encode()).kind == "input_data"
    for name, kind in (
        ("call_text", simple.SyncRequest), ("call_vector", simple.SyncRequest), ("embed", embeddings.EmbeddingRequest),
        ("call_pair", simple.SyncRequest), ("call_texts", calls.ModelCall), ("call_pairs", calls.ModelCall),
        ("call_tensors", calls.ModelCall),
    ):  # fmt: skip  # a table
        assert msgspec.json.decode(json.dumps(EXAMPLES[name][1]), type=kind)
    batch = requests.decode_batch(json.dumps(EXAMPLES["two_texts"][1]).encode())
    assert [type(one) for one in batch] == [requests.InferRequest] * 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("accepted", Accepted), ("answered", Accepted), ("queued", JobRecord), ("done", JobRecord),
        ("done_labels", JobRecord), ("done_values", JobRecord), ("done_embedding", JobRecord),
        ("failed", JobRecord), ("cancelled", JobRecord), ("statistics", Statistics),
        *((error.code, problems.Problem) for error in ERRORS),
    ],
)  # fmt: skip  # examples side by side
def test_examples_of_answers_are_what_the_types_encode(name: str, kind: type[msgspec.Struct]) -> None:
    """An answer that is shown has the fields that the type gives it, and no other."""
    value = EXAMPLES[name][1]
    encoded = msgspec.json.decode(msgspec.json.encode(msgspec.convert(value, kind)))
    assert encoded.keys() == value.keys()


def test_examples_of_problems_are_what_is_answered() -> None:
    """The documents shown are those that the errors are answered with."""
    for error in ERRORS:
        assert json.loads(problems.of(error)) == as_problem(error)
    assert json.loads(bytes(problems.internal().body)) == EXAMPLES["internal_error"][1]


def test_what_is_encoded_is_valid() -> None:
    """Answers as the endpoints make them pass their schemas, with no field that these do not name."""
    error = problems.problem(
        errors.InvalidRequest("x", errors=[errors.FieldError(pointer="/text", detail="y")])
    )
    where = {
        "job_id": JOB_ID,
        "status": "queued",
        "status_url": f"/v1/jobs/{JOB_ID}",
        "stream_url": "ws://a/b",
    }
    jobs: list[AcceptedItem | RefusedItem] = [
        AcceptedItem(index=0, **where), RefusedItem(index=255, error=error),
    ]  # fmt: skip  # two entries
    fields = msgspec.structs.asdict(error)
    timed = Percentiles(count=3, p50=0.5, p90=1.5, p99=2.5)
    untimed = Percentiles(count=0, p50=None, p90=None, p99=None)
    for answer in (
        Accepted(**where),
        BatchAnswer(jobs=jobs, accepted=1, refused=1),
        BatchRefused(**fields, jobs=jobs[1:], accepted=0, refused=1),
        error,
        problems.problem(errors.Unavailable("x")),
        Statistics(
            queue=QueueFigures(depth=0, models={"builtin": None}, dead=0, arrival_rate=0.0, drain_rate=0.0),
            batchers=[
                BatcherFigures(
                    id="b", model="m", device="cpu", fallback_reason=None, precision="fp32", layout="", state="idle",
                    last_progress_s=0.0, shards=[0, 63],
                    cache=CacheFigures(hits=0, misses=0, size=0, hit_rate=None, hit_us=None),
                )
            ],
            batches=BatchTotals(),
            cache=CacheTotals(),
            routing=RoutingFigures(routing="hash", shards=64, unowned={"builtin": [5]}),
            breakers=[],
            latency_ms=LatencyFigures(queue_wait=timed, inference=timed, total=untimed),
        ),
    ):  # fmt: skip  # values side by side
        schema = SCHEMAS[type(answer).__name__]
        value = msgspec.json.decode(msgspec.json.encode(answer))
        DESCRIBED.validates(schema, value)
        assert set(schema["required"]) <= value.keys() <= schema["properties"].keys()


def test_every_field_has_a_meaning_and_no_other_has() -> None:
    """The words and the types tell of the same fields."""
    described = {
        name: set(schema["properties"]) for name, schema in SCHEMAS.items() if "properties" in schema
    }
    assert described == {name: set(fields) for name, fields in FIELDS.items()}
    for name, schema in SCHEMAS.items():
        assert schema["description"].endswith("."), name
        for field, one in schema.get("properties", {}).items():
            assert one["description"].endswith("."), f"{name}.{field}"


def test_requests_are_closed_and_answers_open() -> None:
    """A field too many is an error in a request; in an answer there may be more fields one day."""
    for name in ("InferRequest", "BatchRequest"):
        assert SCHEMAS[name]["additionalProperties"] is False
    assert "additionalProperties" not in SCHEMAS["JobRecord"]


def test_white_space_is_the_decoders() -> None:
    """The pattern takes a character exactly where the decoder takes it as more than white space."""
    pattern = re.compile(NOT_BLANK)
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        assert (pattern.search(character) is None) == character.isspace(), f"U+{number:04X}"


TENSOR: Final[dict[str, Any]] = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a"}, {"text": ""}, {"text": " \u2003\x1c\n"}, {"text": "\ufeff"}, {"text": "\x00"},
        {"text": "👩" * 2000}, {"text": "👩" * 2001}, {}, [], "a", None, {"text": None}, {"text": 1},
        {"text": "a", "txt": 1}, {"text": "a", "model": None}, {"text": "a", "model": ""},
        {"text": "a", "model": "m" * 100}, {"text": "a", "model": "m" * 101}, {"text": "a", "deadline_ms": 0},
        {"text": "a", "deadline_ms": 1}, {"text": "a", "deadline_ms": 86_400_000},
        {"text": "a", "deadline_ms": 86_400_001}, {"text": "a", "deadline_ms": 10**30},
        {"text": "a", "deadline_ms": "1"}, {"text": "a", "deadline_ms": True}, {"text": "a", "deadline_ms": 1.5},
        {"text": "a", "priority": "bulk"}, {"text": "a", "priority": "Bulk"}, {"text": "a", "priority": None},
        {"inputs": [TENSOR]}, {"inputs": [TENSOR] * 64}, {"inputs": [TENSOR] * 65}, {"inputs": []}, {"inputs": None},
        {"inputs": [TENSOR], "text": "a"}, {"inputs": [TENSOR], "input_data": [1]}, {"inputs": TENSOR}, {"inputs": [1]},
        {"inputs": [{**TENSOR, "name": ""}]}, {"inputs": [{**TENSOR, "name": "x" * 257}]},
        {"inputs": [{**TENSOR, "datatype": "BYTES"}]}, {"inputs": [{**TENSOR, "shape": [-1]}]},
        {"inputs": [{**TENSOR, "shape": [2**40]}]}, {"inputs": [{**TENSOR, "shape": [1] * 17}]},
        {"inputs": [{**TENSOR, "data": 1}]}, {"inputs": [{**TENSOR, "data": {}}]}, {"inputs": [{**TENSOR, "more": 1}]},
        {"inputs": [{name: TENSOR[name] for name in ("name", "datatype", "shape")}]},
        {"input_data": [1, 2.5]}, {"input_data": []}, {"input_data": ["1"]}, {"input_data": None}, {"input_data": 1},
        {"input_data": [True]}, {"input_data": [1], "model": "m", "deadline_ms": 5, "webhook": "https://a.example/"},
    ],
)  # fmt: skip  # bodies side by side
def test_schema_and_decoder_agree(body: Any) -> None:
    """What the schema allows is decoded, and what it forbids is refused."""
    assert valid("InferRequest", body) == decodes(json.dumps(body).encode())


def test_a_batch_is_as_large_as_described() -> None:
    """Schema and decoder agree on how many inputs there may be."""
    one = {"text": "a"}
    for count in (0, 1, 256, 257):
        body = {"inputs": [one] * count}
        try:
            requests.decode_batch(json.dumps(body).encode())
        except errors.InvalidRequest:
            decoded = False
        else:
            decoded = True
        assert valid("BatchRequest", body) == decoded, count


def test_ids_are_described_as_they_are() -> None:
    """A record's id, and nothing longer or in capitals."""
    record = EXAMPLES["queued"][1]
    assert valid("JobRecord", record)
    for wrong in (JOB_ID.upper(), JOB_ID + "0", JOB_ID[1:], JOB_ID + "\n"):
        assert not valid("JobRecord", {**record, "job_id": wrong})
    assert not valid("JobRecord", {**record, "created_at": "yesterday"})
    assert not valid("JobRecord", {**EXAMPLES["done"][1], "result": {"label": "POSITIVE"}})
