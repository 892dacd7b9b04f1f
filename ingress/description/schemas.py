"""The schemas of the API, made from the types that decode and encode.

msgspec says what it checks; what no type can say is added from `_RULES`, and what a field is for from `meanings`. A
field of an answer is always there, whatever default its type has, unless the type leaves defaults out.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from inferq.breaker import State
from inferq.jobs import BIRTHS, JobRecord, Result
from inferq.limits import MAX_INPUTS, MAX_TEXT
from inferq.problems import Problem
from inferq.results import LabelsResult, ValuesResult
from inferq.v2 import answers, embeddings, requests, simple
from inferq.webhooks.url import MAX_URL
from ingress.answers import Accepted, BatchAnswer, BatchRefused
from ingress.circuits import Overview
from ingress.description.frames import (
    MOST_JOB_IDS,
    RESULTS,
    ErrorFrame,
    FinalFrame,
    JobFrame,
    StreamedEvent,
)
from ingress.description.meanings import FIELDS
from ingress.requests import BatchRequest, InferRequest
from ingress.statistics import Statistics

REF: Final = "#/components/schemas/"
JOB_ID: Final = "^[0-9a-f]{32}$"
# What str.isspace calls white space, spelled out: the `\s` of regular expressions differs by language.
NOT_BLANK: Final = (
    r"[^\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
REQUESTS: Final = (
    InferRequest,
    BatchRequest,
    simple.SyncRequest,
    embeddings.EmbeddingRequest,
    requests.ModelCall,
)


class Health(msgspec.Struct, kw_only=True):
    """Answer to `GET /healthz`."""

    status: Literal["ok"]


class Readiness(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Answer to `GET /readyz`."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]
    models_without_batcher: list[str] | msgspec.UnsetType = msgspec.UNSET
    unowned_shards: dict[str, list[int]] | msgspec.UnsetType = msgspec.UNSET


class OpenApi(msgspec.Struct, kw_only=True):
    """Answer to `GET /openapi.json`: the part of OpenAPI that every description has."""

    openapi: Annotated[str, msgspec.Meta(pattern=r"^3\.1\.\d+$")]
    info: dict[str, Any]
    paths: dict[str, Any]


class AsyncApi(msgspec.Struct, kw_only=True):
    """Answer to `GET /asyncapi.json`: the part of AsyncAPI that every description has."""

    asyncapi: Annotated[str, msgspec.Meta(pattern=r"^3\.0\.\d+$")]
    info: dict[str, Any]
    channels: dict[str, Any]


ANSWERS: Final = (
    Accepted, BatchAnswer, BatchRefused, Problem, JobRecord, *RESULTS, Statistics, Overview, StreamedEvent, JobFrame,
    FinalFrame, ErrorFrame, OpenApi, AsyncApi, Health, Readiness, simple.SyncAnswer, embeddings.EmbeddingAnswer,
    answers.ModelAnswer, answers.AnsweredTensor, answers.ServerMetadata, answers.ModelMetadata, answers.Live,
    answers.Ready, answers.ModelReady, answers.CallFault,
)  # fmt: skip  # one list reads in one line

_Rules = Mapping[str, Mapping[str, Any]]

_PROBABILITY: Final = {"minimum": 0, "maximum": 1}
_WHERE: Final[_Rules] = {
    "job_id": {"pattern": JOB_ID},
    "status": {"enum": sorted(BIRTHS.values())},
    "status_url": {"pattern": "^/v1/jobs/[0-9a-f]{32}$", "format": "uri-reference"},
    "stream_url": {"pattern": "^wss?://", "format": "uri"},
}
_INDEX: Final[_Rules] = {"index": {"minimum": 0, "maximum": MAX_INPUTS - 1}}
_ENTRIES: Final = {"minItems": 1, "maxItems": MAX_INPUTS}
_PROBLEM: Final[_Rules] = {
    "type": {"format": "uri-reference"},
    "status": {"minimum": 400, "maximum": 599},
    "code": {"pattern": "^[a-z_]+$"},
    "errors": {"minItems": 1},
}
_WEBHOOK: Final = {
    "type": "string",
    "minLength": len("https://a"),
    "maxLength": MAX_URL,
    "format": "uri",
    "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://",
}
_BREAKER: Final[_Rules] = {"state": {"enum": sorted(State)}}
_FRAME: Final[_Rules] = {"job_id": {"pattern": JOB_ID}, "seq": {"minimum": 1}}
_IDS: Final = {"minItems": 1, "maxItems": MOST_JOB_IDS, "items": {"type": "string", "pattern": JOB_ID}}
_LENGTHS: Final = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_TEXT: Final = {**_LENGTHS, "pattern": NOT_BLANK}
_ROW: Final = {"type": "array", "minItems": 1, "items": {"type": "number"}}
_VALUES: Final = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}}
# Each of the three of a job is another kind of input; only a text has a second one.
_WHOLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "InferRequest": {
        "oneOf": [{"required": [name]} for name in ("text", "inputs", "input_data")],
        "dependentRequired": {"text_pair": ["text"]},
    },
    "SyncRequest": {
        "if": {"required": ["text_pair"], "properties": {"text_pair": {"type": "string"}}},
        "then": {"properties": {"input_data": {"type": "string"}}},
    },
}
_RULES: Final[Mapping[str, _Rules]] = {
    "InferRequest": {
        "text": {"pattern": NOT_BLANK},
        "text_pair": {"pattern": NOT_BLANK},
        "webhook": {"anyOf": [_WEBHOOK, {"const": ""}, {"type": "null"}]},
        "input_data": _ROW,
    },
    "InputTensor": {"data": {"type": "array"}},
    "ModelInput": {"data": {"type": "array"}},
    "AnsweredTensor": {"data": {"type": "array"}},
    "SyncRequest": {"input_data": {"anyOf": [_TEXT, _ROW]}, "text_pair": {"pattern": NOT_BLANK}},
    "EmbeddingRequest": {"input": {"anyOf": [_LENGTHS, {"type": "array", **_ENTRIES, "items": _LENGTHS}]}},
    "SyncAnswer": {
        "output_data": {
            "anyOf": [
                *({"$ref": REF + kind.__name__} for kind in (Result, LabelsResult, ValuesResult)),
                _VALUES,
                {"type": "object", "additionalProperties": _VALUES},
            ]
        }
    },
    "ModelAnswer": {"model_version": {"const": "1"}},
    "EmbeddingItem": {"index": {"minimum": 0}},
    "Usage": {"prompt_tokens": {"minimum": 0}, "total_tokens": {"minimum": 0}},
    "OutputTensor": {"data": _VALUES},
    "WebhookState": {
        "attempts": {"minimum": 0},
        "last_status": {"anyOf": [{"type": "integer", "minimum": 100, "maximum": 999}, {"type": "null"}]},
        "next_at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
    },
    "Accepted": _WHERE,
    "AcceptedItem": {**_WHERE, **_INDEX},
    "RefusedItem": _INDEX,
    "BatchAnswer": {
        "jobs": _ENTRIES,
        "accepted": {"minimum": 1, "maximum": MAX_INPUTS},
        "refused": {"minimum": 0, "maximum": MAX_INPUTS - 1},
    },
    "BatchRefused": {
        **_PROBLEM,
        "jobs": _ENTRIES,
        "accepted": {"const": 0},
        "refused": {"minimum": 1, "maximum": MAX_INPUTS},
    },
    "Problem": _PROBLEM,
    "JobRecord": {
        "job_id": {"pattern": JOB_ID},
        "seq": {"minimum": 1},
        "attempt": {"minimum": 0},
        "result": {"anyOf": [*({"$ref": REF + kind.__name__} for kind in RESULTS), {"type": "null"}]},
        "created_at": {"format": "date-time"},
        **{
            name: {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}
            for name in ("deadline_at", "started_at", "finished_at")
        },
    },
    "FinalFrame": _FRAME,
    "JobFrame": _FRAME,
    "ErrorFrame": {"job_id": {"pattern": JOB_ID}, "code": {"pattern": "^[a-z_]+$"}},
    "StreamedEvent": {
        "id": {"pattern": "^[0-9]+$"},
        "retry": {"minimum": 1},
        "data": {
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [{"$ref": REF + kind.__name__} for kind in (JobFrame, ErrorFrame)]},
        },
    },
    "Subscribe": {
        "job_ids": _IDS,
        "after": {
            "maxProperties": MOST_JOB_IDS,
            "propertyNames": {"pattern": JOB_ID},
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
    },
    "Unsubscribe": {"job_ids": _IDS},
    "BatchInfo": {"size": {"minimum": 1}},
    "Result": {
        "score": _PROBABILITY,
        "scores": {"additionalProperties": {"type": "number", **_PROBABILITY}},
    },
    "Breaker": _BREAKER,
    "NodeBreaker": _BREAKER,
    "LabelsResult": {"scores": {"additionalProperties": {"type": "number", **_PROBABILITY}}},
    "Embedding": {"embedding": {"minItems": 1}},
}


def schemas(
    requests: Iterable[type[msgspec.Struct]] = REQUESTS,
    answers: Sequence[type[msgspec.Struct]] = ANSWERS,
    fields: Mapping[str, Mapping[str, str]] = FIELDS,
) -> dict[str, dict[str, Any]]:
    """Return the schemas of types and of all that they hold, by name (JSON Schema 2020-12); ``fields`` has the words.

    Without arguments these are the types of the API.
    """
    made, answered = _components(requests), _components(answers)
    shortened = {kind.__name__ for kind in answers if kind.__struct_config__.omit_defaults}
    for name, schema in answered.items():
        properties = schema.get("properties", {})
        if properties and name not in shortened:
            schema["required"] = list(properties)
        for described in properties.values():
            described.pop("default", None)
    made |= answered
    for name, schema in made.items():
        schema |= _WHOLE.get(name, {})
        # Docstrings quote as this code does, and these texts are CommonMark.
        schema["description"] = schema["description"].replace("``", "`")
        for field, described in schema.get("properties", {}).items():
            described |= _RULES.get(name, {}).get(field, {})
            described["description"] = fields.get(name, {}).get(field, "")
    return dict(sorted(made.items()))


def _components(kinds: Iterable[type[msgspec.Struct]]) -> dict[str, dict[str, Any]]:
    found: list[Any] = []
    for kind in kinds:
        found.append(_twin(kind))
        found += [member for field in msgspec.structs.fields(kind) for member in _members(field.type)]
    _, components = msgspec.json.schema_components(found, schema_hook=_either, ref_template=REF + "{name}")
    return dict(components)


class _Either:
    """Stands for several types, of which msgspec takes no more than one where it decodes."""

    members: tuple[type[msgspec.Struct], ...]


def _twin(kind: type[msgspec.Struct]) -> Any:
    """Return ``kind``, or where it has lists of several types one like it that msgspec can describe."""
    fields = [(field, _members(field.type)) for field in msgspec.structs.fields(kind)]
    if not any(members for _, members in fields):
        return kind
    return msgspec.defstruct(
        kind.__name__,
        [
            (
                field.name,
                list[type("Either", (_Either,), {"members": members})] if members else field.type,  # type: ignore[misc]  # made here
                msgspec.NODEFAULT if field.required else field.default,
            )
            for field, members in fields
        ],
        namespace={"__doc__": kind.__doc__},
        kw_only=True,
    )


def _members(annotation: Any) -> tuple[type[msgspec.Struct], ...]:
    """Return the types that a list may hold where these are several."""
    items = get_args(annotation) if get_origin(annotation) is list else ()
    return get_args(items[0]) if items and isinstance(items[0], types.UnionType) else ()


def _either(kind: type[_Either]) -> dict[str, Any]:
    return {"oneOf": [{"$ref": REF + member.__name__} for member in kind.members]}
