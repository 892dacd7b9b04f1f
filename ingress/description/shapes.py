"""JSON Schemas in words: what a value is, and the fields of an object. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ingress.description.markup import code, link, prose, table

Schema = Mapping[str, Any]

# What may be said of a value besides its type, as people say it.
_PLURALS: Final = {"Length": "characters", "Items": "entries"}
_LONGEST_PATTERN: Final = 40


def place(name: str) -> str:
    """Return where on the page a schema stands."""
    return f"schema-{name}"


def name_of(schema: Schema) -> str:
    """Return the name of the schema that a reference leads to; empty when it is none."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def kind(schema: Schema) -> str:
    """Return what a value is, in words, as HTML."""
    if name := name_of(schema):
        return link(place(name), name)
    for how in ("anyOf", "oneOf"):
        if how in schema:
            return " or ".join(kind(one) for one in schema[how])
    if "allOf" in schema:
        # The others narrow what the first one says.
        return kind(schema["allOf"][0])
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return " or ".join(code(str(value)) for value in schema["enum"])
    return ", ".join([_base(schema), *_limits(schema)])


def field_table(schema: Schema) -> str:
    """Return the fields of an object as a table; of an enumeration, its values."""
    if "properties" not in schema:
        return f"<p>{kind(schema)}</p>"
    needed = schema.get("required", [])
    rows = (
        (
            code(name) + ("" if name in needed else ' <span class="quiet">optional</span>'),
            kind(field) + _default(field),
            prose(field["description"]),
        )
        for name, field in schema["properties"].items()
    )
    return table(("Field", "Is", "Meaning"), rows)


def _base(schema: Schema) -> str:
    if schema["type"] == "array":
        if schema.get("maxItems") == 0:
            return "empty list"
        return "list of " + kind(schema["items"]) if "items" in schema else "list"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"object of {kind(values)} by name" if values else "object"
    return str(schema["type"])


def _limits(schema: Schema) -> Iterator[str]:
    for what, plural in _PLURALS.items():
        least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
        if most:
            yield f"{least} to {most} {plural}" if least else f"at most {most} {plural}"
        elif least:
            yield f"{least} or more {plural}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if most is not None:
        yield f"{least} to {most}"
    elif least is not None:
        yield f"at least {least}"
    if "format" in schema:
        yield code(schema["format"])
    # A longer one is no help to people: the field's meaning says it.
    if len(schema.get("pattern", "")) in range(1, _LONGEST_PATTERN):
        yield "matching " + code(schema["pattern"])


def _default(schema: Schema) -> str:
    # Absent and null are the same, and "null" among the types says so.
    value = schema.get("default")
    return "" if value is None else f" (otherwise {code(str(value))})"
