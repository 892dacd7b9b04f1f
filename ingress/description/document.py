"""The description of the API: OpenAPI 3.1, from the types that decode and encode, and from the table of operations."""

from collections.abc import Iterable
from importlib.metadata import version
from itertools import groupby
from typing import Any, Final

from inferq.errors import Forbidden, HttpError
from inferq.problems import MEDIA_TYPE, Problem
from ingress.description.examples import ERRORS, EXAMPLES
from ingress.description.operation import Answer, Operation
from ingress.description.operations import OPERATIONS, TAGS
from ingress.description.parts import BEARER, HEADER_FIELDS, PARAMETERS
from ingress.description.schemas import REF, schemas
from ingress.description.webhooks import webhooks

_TEXT: Final = """\
Submit a text, get a 202 in milliseconds, and have the result pushed or poll for it. A job that was accepted ends in \
one of the states `done`, `failed`, `cancelled` and `expired`, and stays there.

Errors are problem documents (RFC 9457, `application/problem+json`). Decide by their `code`, which is stable; `title` \
and `detail` are for people. Every 429 and 503 under `/v1/` says in `Retry-After` when to come back. A path that does \
not exist is a 404 `not_found`, a method that a path does not take is a 405 `method_not_allowed` with `Allow`, and \
`HEAD` is taken wherever `GET` is. Whatever the path, a request that does not come to its end in time is a 408 \
`request_timeout`, one with too large a head a 431 `headers_too_large`; both close the connection. Under \
`/v2` errors are `{"error": "…"}`, as the protocol there has it.

With an API key a caller sees the jobs of its own key alone: any other is not found."""

_INTERNAL: Final = "internal_error"
_MEANINGS: Final = {
    _INTERNAL: "The fault is ours; it is in the log.",
    "method_not_allowed": "The path takes other methods.",
    "no_such_path": "There is nothing at this path.",
}
_CLOSING: Final = 413


def document() -> dict[str, Any]:
    """Make the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "inferq",
            "version": version("inferq"),
            "summary": "Asynchronous inference with dynamic batching and push delivery",
            "description": _TEXT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # Relative: the service that the description comes from.
        "servers": [{"url": "/", "description": "This service"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": {
            path: {operation.method: _operation(operation) for operation in operations}
            for path, operations in groupby(OPERATIONS, key=lambda operation: operation.path)
        },
        "webhooks": webhooks(),
        "components": {
            "schemas": schemas(),
            "parameters": dict(PARAMETERS),
            "headers": {part: dict(field) for part, (_, field) in HEADER_FIELDS.items()},
            "examples": {name: _example(name) for name in EXAMPLES},
            "responses": {
                "MethodNotAllowed": _plain(405, "method_not_allowed", "method_not_allowed", ("Allow",)),
                "NoSuchPath": _plain(404, "not_found", "no_such_path"),
                "InternalError": _plain(500, _INTERNAL, _INTERNAL),
                "InternalFault": _fault(500, _MEANINGS[_INTERNAL], "CallFault", ()),
            },
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.text,
        # Without keys nobody needs one, so going without is one of the ways.
        "security": [{}, {"bearer": []}] if operation.keyed else [],
    }
    if operation.parameters:
        made["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in operation.parameters]
    if operation.body:
        made["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": REF + operation.body},
                    "examples": _examples(operation.body_examples),
                }
            },
        }
    answers = {str(answer.status): _answer(answer) for answer in operation.answers}
    made["responses"] = dict(sorted(({"500": _internal(operation)} | answers | _errors(operation)).items()))
    return made


def _answer(answer: Answer) -> dict[str, Any]:
    made: dict[str, Any] = {"description": answer.meaning}
    if answer.header_fields:
        made["headers"] = _headers(answer.header_fields)
    if answer.media_type:
        schema = {"$ref": REF + answer.schema} if answer.schema else {"type": "string"}
        content: dict[str, Any] = {"schema": schema}
        if answer.examples:
            content["examples"] = _examples(answer.examples)
        made["content"] = {answer.media_type: content}
        if answer.binary:
            made["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    if answer.leads_to:
        made["links"] = {
            name: {"operationId": name, "parameters": {"job_id": "$response.body#/job_id"}}
            for name in answer.leads_to
        }
    return made


def _errors(operation: Operation) -> dict[str, Any]:
    """Return the answers to an operation's errors, by status; who is not let in is told so everywhere."""
    kinds: list[type[HttpError]] = [*operation.errors, Forbidden]
    ordered = sorted(kinds, key=lambda kind: kind.status)
    return {
        str(status): _problem(status, list(kinds), operation)
        for status, kinds in groupby(ordered, key=lambda kind: kind.status)
    }


def _problem(status: int, kinds: list[type[HttpError]], operation: Operation) -> dict[str, Any]:
    fields = sorted({field for kind in kinds for field in kind("").headers})
    if status == 429:
        fields += ["RateLimit", "RateLimit-Policy"]
    if status == _CLOSING:
        fields.append("Connection")
    text = " ".join(meaning(kind) for kind in kinds)
    codes, examples = [kind.code for kind in kinds], [kind.code for kind in kinds]
    if status == 500:
        text += f" Or: {_MEANINGS[_INTERNAL].lower()}"
        codes.append(_INTERNAL)
        examples.append(_INTERNAL)
    if operation.fault:
        return _fault(status, text, operation.fault, fields)
    schemas = [Problem.__name__]
    if any(kind in operation.errors_of_inputs for kind in kinds):
        schemas.insert(0, "BatchRefused")
        if "invalid_request" in codes:
            examples.append("none_accepted")
    return _described(status, text, schemas, codes, examples, fields)


def _internal(operation: Operation) -> dict[str, str]:
    return _ref("responses", "InternalFault" if operation.fault else "InternalError")


def _fault(status: int, text: str, schema: str, fields: Iterable[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": text,
        "content": {
            "application/json": {"schema": {"$ref": REF + schema}, "examples": _examples(["call_fault"])}
        },
    }
    if headers := _headers(fields):
        made["headers"] = headers
    return made


def _plain(status: int, code: str, example: str, fields: Iterable[str] = ()) -> dict[str, Any]:
    return _described(status, _MEANINGS[example], [Problem.__name__], [code], [example], fields)


def _described(
    status: int,
    text: str,
    schemas: list[str],
    codes: list[str],
    examples: list[str],
    fields: Iterable[str],
) -> dict[str, Any]:
    either = [{"$ref": REF + name} for name in schemas]
    narrowed = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
    made: dict[str, Any] = {
        "description": text,
        "content": {
            MEDIA_TYPE: {
                "schema": {"allOf": [either[0] if len(either) == 1 else {"anyOf": either}, narrowed]},
                "examples": _examples(examples),
            }
        },
    }
    if headers := _headers(fields):
        made["headers"] = headers
    return made


def meaning(kind: type[HttpError]) -> str:
    """Return in one line what an error says."""
    assert kind.__doc__ is not None, "every error says what it is"
    return kind.__doc__.partition("\n")[0]


def _example(name: str) -> dict[str, Any]:
    summary, value = EXAMPLES[name]
    kind = next((type(error) for error in ERRORS if error.code == name), None)
    text = meaning(kind) if kind is not None else _MEANINGS.get(name)
    return {"summary": summary, **({"description": text} if text else {}), "value": value}


def _headers(parts: Iterable[str]) -> dict[str, Any]:
    return {HEADER_FIELDS[part][0]: _ref("headers", part) for part in parts}


def _examples(names: Iterable[str]) -> dict[str, Any]:
    return {name: _ref("examples", name) for name in names}


def _ref(place: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{place}/{name}"}
