"""Reads the JSON files of a model's folder; what is wrong with one is an operator's mistake, told with its cure.

Only files are read, and only up to a bound: a pipe would never end, and a device would fill the memory.
"""

import json
from pathlib import Path
from typing import Any, Final

from inferq.errors import OperatorError

# The largest tokenizers have some 35 MB.
MOST_BYTES: Final = 256 << 20


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a model's JSON file; `OperatorError` when there is none."""
    value = read_any(path)
    if not isinstance(value, dict):
        raise OperatorError(f"{path} is not a JSON object: copy the model's file again")
    return value


def read_any(path: Path) -> Any:
    """Return what a model's JSON file holds; `OperatorError` when it cannot be read."""
    try:
        return json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{path} is not readable JSON: copy the model's file again") from error


def read_file(path: Path) -> bytes:
    """Return what is in a small file of a model's folder; `OperatorError` when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise OperatorError(f"{path} is no file: copy the model's {path.name} there")
        if path.stat().st_size > MOST_BYTES:
            raise OperatorError(f"{path} is larger than {MOST_BYTES >> 20} MiB: copy the model's file again")
        return path.read_bytes()
    except FileNotFoundError:
        raise OperatorError(f"{path} is missing: copy the model's {path.name} there") from None
    except OSError as error:
        raise unreadable(error, path) from error


def unreadable(error: OSError, path: Path) -> OperatorError:
    """Return what to say of a file that the system does not let be read; ``path`` where the error names none."""
    return OperatorError(
        f"{error.filename or path} cannot be read ({error.strerror or error}): let this user read it, and the"
        " folders that it is in"
    )
