"""Reads the JSON files of a model's folder; what is wrong with one is an operator's mistake, told with its cure.

A folder may come from anywhere, and its files are read before anything is served. So only plain files are, and no
more than any model's holds: a pipe would hold the start up for ever, and a device fill the memory.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from inferq.errors import OperatorError

# The largest tokenizer.json of a public model has a quarter of that.
MOST_BYTES: Final = 128 * 1024 * 1024


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a model's JSON file; `OperatorError` when there is none."""
    value = read_any(path)
    if not isinstance(value, dict):
        raise OperatorError(f"{path} is not a JSON object: copy the model's file again")
    return value


def read_any(path: Path) -> Any:
    """Return what a model's JSON file holds; `OperatorError` when it cannot be read."""
    content = read_file(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{path} is not readable JSON: copy the model's file again") from error


def read_file(path: Path) -> bytes:
    """Return a file of a model's folder.

    Raises:
        OperatorError: it is missing, no plain file, larger than 128 MiB, or may not be read.
    """
    try:
        # Not to wait for a writer, where it is a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(MOST_BYTES + 1) if plain else b""
    except FileNotFoundError:
        raise OperatorError(f"{path} is missing: copy the model's {path.name} there") from None
    except IsADirectoryError:
        plain = False
    except OSError as error:
        raise unreadable(error, path) from error
    if not plain:
        raise OperatorError(f"{path} is no file: copy the model's {path.name} there")
    if len(content) > MOST_BYTES:
        raise OperatorError(f"{path} is larger than {MOST_BYTES >> 20} MiB: copy the model's file again")
    return content


def unreadable(error: OSError, path: Path) -> OperatorError:
    """Return what to say of a file that the system does not let be read; ``path`` where the error names none."""
    return OperatorError(
        f"{error.filename or path} cannot be read ({error.strerror or error}): let this user read it, and the"
        " folders that it is in"
    )
