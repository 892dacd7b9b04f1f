"""What ONNX Runtime says of a graph that it does not take. Pure.

Its texts begin with where in its source they come from, a C++ signature of any length. What it means stands behind
that, and would be cut off with the line.
"""

import re
from typing import Final

from inferq.errors import first_line

_CLASS: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FILE: Final = re.compile(r"^Load model from .* failed: ?", re.DOTALL)
# Parentheses in a signature are at most one in another.
_SOURCE: Final = re.compile(
    r"/\S+\.(?:cc|h|cpp|hpp|cu|cuh):\d+ [^(\n]*\((?:[^()\n]|\([^()\n]*\))*\)(?: const)?(?: \[with [^\]\n]*\])? "
)


def said_by_runtime(error: BaseException) -> str:
    """Return in one line why the runtime refuses a graph."""
    text = _SOURCE.sub("", _FILE.sub("", _CLASS.sub("", str(error)))).strip()
    return first_line(ValueError(text) if text else error)
