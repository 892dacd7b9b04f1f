"""Holds answers against the API's description."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import jsonschema_rs

_REFS = "#/components/"


class Described:
    """A description, and what it says of values and answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def validates(self, schema: Mapping[str, Any], value: Any) -> None:
        """Check a value; raises `jsonschema_rs.ValidationError`."""
        whole = {**schema, "components": self.document["components"]}
        jsonschema_rs.Draft202012Validator(whole, validate_formats=True).validate(value)

    def resolved(self, value: Any) -> Any:
        """Follow a reference."""
        while isinstance(value, dict) and "$ref" in value:
            found: Any = self.document
            for step in value["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            value = found
        return value

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Return path, method and operation."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method, operation

    def answers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return every answer, and where it stands."""
        for path, method, operation in self.operations():
            for status, answer in operation["responses"].items():
                yield f"{method} {path} {status}", self.resolved(answer)
        for name, answer in self.document["components"]["responses"].items():
            yield name, answer

    def conforms(self, path: str, method: str, response: httpx.Response) -> None:
        """Check that the answer is one that the description knows."""
        responses = self.document["paths"][path][method]["responses"]
        assert str(response.status_code) in responses, (
            f"{response.status_code} of {method} {path}: {response.text}"
        )
        self.is_as(self.resolved(responses[str(response.status_code)]), response)

    def is_as(self, answer: Mapping[str, Any], response: httpx.Response) -> None:
        """Check an answer's header fields and body."""
        for name, field in answer.get("headers", {}).items():
            field = self.resolved(field)
            value = response.headers.get(name)
            assert value is not None or not field.get("required", False), f"no {name} in {response.headers}"
            if value is not None:
                typed = json.loads(value) if field["schema"]["type"] == "integer" else value
                self.validates(field["schema"], typed)
        if "content" not in answer:
            assert response.content == b""
            return
        media_type = response.headers["content-type"].partition(";")[0]
        schema = answer["content"][media_type]["schema"]
        if media_type == "text/event-stream":
            for event in _events(response.text):
                self.validates(schema, event)
                data = self.resolved(schema)["properties"]["data"]
                self.validates(data["contentSchema"], json.loads(event["data"]))
        else:
            self.validates(schema, response.json())


def _events(text: str) -> Iterator[dict[str, Any]]:
    for block in text.removesuffix("\n\n").split("\n\n"):
        fields: dict[str, Any] = dict(line.split(": ", 1) for line in block.split("\n"))
        yield fields | {"retry": int(fields["retry"])} if "retry" in fields else fields
