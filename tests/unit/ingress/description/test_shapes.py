"""Schemas are told in words."""

from typing import Any

import pytest

from ingress.description.shapes import field_table, kind


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "minLength": 1, "maxLength": 9}, "string, 1 to 9 characters"),
        ({"type": "string", "maxLength": 9}, "string, at most 9 characters"),
        ({"type": "string", "minLength": 2}, "string, 2 or more characters"),
        ({"type": "string", "pattern": "^<a>$"}, "string, matching <code>^&lt;a&gt;$</code>"),
        ({"type": "string", "pattern": "a" * 100}, "string"),
        ({"type": "string", "format": "date-time"}, "string, <code>date-time</code>"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer, 1 to 5"),
        ({"type": "integer", "minimum": 0}, "integer, at least 0"),
        ({"type": "number"}, "number"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"oneOf": [{"$ref": "#/x/A"}, {"type": "null"}]}, '<a href="#schema-A">A</a> or null'),
        ({"allOf": [{"$ref": "#/x/A"}, {"properties": {}}]}, '<a href="#schema-A">A</a>'),
        ({"type": "integer", "const": 0}, "<code>0</code>"),
        ({"enum": ["a", "b"]}, "<code>a</code> or <code>b</code>"),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 3}, "list of number, at most 3 entries"),
        ({"type": "array", "items": {}, "maxItems": 0}, "empty list"),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number by name"),
    ],
)
def test_what_a_value_is(schema: dict[str, Any], words: str) -> None:
    """Type and limits; a pattern only where it is short enough to help."""
    assert kind(schema) == words


def test_fields_of_an_object() -> None:
    """Each field says whether it may be absent, what it is then, and what it is for."""
    made = field_table(
        {
            "required": ["a"],
            "properties": {
                "a": {"type": "string", "description": "The `first`."},
                "b": {"type": "string", "default": "x", "description": "The second."},
                "c": {"anyOf": [{"type": "null"}], "default": None, "description": "The third."},
            },
        }
    )
    a, b, c = made.partition("<tbody>")[2].split("</tr>")[:3]
    assert "optional" not in a
    assert "The <code>first</code>." in a
    assert "optional" in b
    assert "(otherwise <code>x</code>)" in b
    assert "optional" in c
    assert "otherwise" not in c


def test_values_of_an_enumeration() -> None:
    """What has no fields is told as a value."""
    assert field_table({"enum": ["a"]}) == "<p><code>a</code></p>"
