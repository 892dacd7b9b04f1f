"""Reads the JSON files of a model's folder; what is wrong with one is an operator's mistake, told with its cure."""

import json
from pathlib import Path
from typing import Any

from inferq.errors import OperatorError


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a model's JSON file; `OperatorError` when there is none."""
    value = read_any(path)
    if not isinstance(value, dict):
        raise OperatorError(f"{path} is not a JSON object: copy the model's file again")
    return value


def read_any(path: Path) -> Any:
    """Return what a model's JSON file holds; `OperatorError` when it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise OperatorError(f"{path} is missing: copy the model's {path.name} there") from None
    except (OSError, ValueError, RecursionError) as error:
        raise OperatorError(f"{path} is not readable JSON: copy the model's file again") from error
