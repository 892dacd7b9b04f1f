"""A job's result in a few words: a label and its probability, or a graph's outputs by name, type and shape. Pure."""

from collections.abc import Mapping
from typing import Any

from inferq.cli.plain import printable


def in_brief(result: Mapping[str, Any]) -> str:
    """Return a result as a record shows it, in words for one line."""
    if "outputs" in result:
        return printable(
            ", ".join(f"{one['name']} {one['datatype']} {one['shape']}" for one in result["outputs"])
        )
    return f"{printable(str(result['label']))} {result['score']:.4f}"
