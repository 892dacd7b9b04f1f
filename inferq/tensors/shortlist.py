"""Decodes JSON lists that may have so many entries and no more. Pure.

A list is measured when all of it has been decoded, and 8 MiB hold millions of entries: half a second in which nobody
else is served, and 200 MB. An array of named places has no room for more, and is left at the first entry too many.
"""

from collections.abc import Iterator
from typing import Any

import msgspec


class ShortList:
    """A decoder of lists of 1 to ``most`` entries, each a ``kind``, which is nothing that may be null."""

    def __init__(self, kind: Any, most: int) -> None:
        others: list[tuple[str, Any, Any]] = [(f"other_{number}", kind, None) for number in range(1, most)]
        places = msgspec.defstruct(
            "_Places", [("first", kind), *others], frozen=True, array_like=True, forbid_unknown_fields=True
        )
        self._decoder = msgspec.json.Decoder(places)

    def decode(self, raw: bytes | msgspec.Raw) -> Iterator[Any]:
        """Return the entries.

        Raises:
            msgspec.DecodeError, UnicodeDecodeError, RecursionError: as msgspec does; with one too many it is a
                `msgspec.ValidationError`.
        """
        places = self._decoder.decode(raw)
        return (one for one in msgspec.structs.astuple(places) if one is not None)
