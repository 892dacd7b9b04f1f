"""A job's result in a few words: labels and scores, values, an embedding's size, or a graph's outputs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from inferq.cli.plain import printable

# Enough to see that it is what was expected; all of them are in the record.
SHOWN_NUMBERS: Final = 4


def in_brief(result: Mapping[str, Any]) -> str:
    """Return a result as a record shows it, in words for one line."""
    if "outputs" in result:
        return printable(
            ", ".join(
                f"{one['name']} {one['datatype']} {one['shape']} {_first(one['data'])}"
                for one in result["outputs"]
            )
        )
    if "labels" in result:
        scored = (f"{label} {result['scores'][label]:.4f}" for label in result["labels"])
        return printable(", ".join(scored)) or "no label"
    if "values" in result:
        return printable(", ".join(f"{label} {value:.4f}" for label, value in result["values"].items()))
    if "embedding" in result:
        return f"embedding of {len(result['embedding'])} {_first(result['embedding'])}"
    return f"{printable(str(result['label']))} {result['score']:.4f}"


def _first(numbers: Sequence[float | bool]) -> str:
    more = ["…"] if len(numbers) > SHOWN_NUMBERS else []
    return " ".join([*map(_written, numbers[:SHOWN_NUMBERS]), *more])


def _written(number: float | bool) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number).lower()
