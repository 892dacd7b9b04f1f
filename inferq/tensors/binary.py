"""The binary extension of the Open Inference Protocol: tensors as bytes behind the JSON of a message. Pure.

`Inference-Header-Content-Length` says how long the JSON is. A tensor whose parameters hold `binary_data_size` has no
`data` there: its bytes follow, in the order of the tensors, without anything between them or after them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from inferq.tensors.tensor import TensorError

HEADER: Final = "Inference-Header-Content-Length"
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def split(body: bytes, header_length: str | None) -> tuple[memoryview, memoryview]:
    """Return a body's JSON and the bytes behind it; without ``header_length``, the header's value, it is all JSON.

    Raises:
        TensorError: the header is no length within the body.
    """
    view = memoryview(body)
    if header_length is None:
        return view, view[len(view) :]
    if not _LENGTH.fullmatch(header_length) or int(header_length) > len(body):
        raise TensorError(f"{HEADER} must be a whole number within the body's {len(body)} bytes")
    length = int(header_length)
    return view[:length], view[length:]


def pieces(tail: memoryview, sizes: Sequence[int | None]) -> Iterator[bytes | None]:
    """Yield each tensor's bytes, None for one whose size is None, as it has its data in the JSON.

    Raises:
        TensorError: a size is negative, or the bytes do not end with the last tensor.
    """
    at = 0
    for index, size in enumerate(sizes):
        if size is None:
            yield None
            continue
        if not 0 <= size <= len(tail) - at:
            raise TensorError(
                f"must be a number of bytes within the {len(tail) - at} that are left",
                field="parameters",
                index=index,
            )
        yield bytes(tail[at : at + size])
        at += size
    if at != len(tail):
        raise TensorError(f"{len(tail) - at} bytes follow the last tensor's")


def join(header: bytes, tensors: Sequence[bytes]) -> tuple[bytes, str]:
    """Return a body of JSON and the tensors' bytes behind it, and the value of its header."""
    return b"".join((header, *tensors)), str(len(header))
