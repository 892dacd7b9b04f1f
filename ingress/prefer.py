"""How long a submit is willing to wait for its result: the `Prefer` header field (RFC 7240). Pure.

Rules:

1. `wait=N` asks for the final record, should the job end within N seconds. Whatever else is preferred says nothing.
2. A preference is no demand: one that is malformed, and a wait of no seconds, is passed over, and the answer comes at
   once. A wait beyond `MOST_S` is one of `MOST_S`: who would wait longer waits that long too, and the answer says which
   wait was applied.
3. Names have no case, a value may be quoted, parameters are passed over, and of several the first one counts.
"""

import re
from typing import Final

MOST_S: Final = 60

# A comma in quotes parts nothing. An open quote reaches to the end: each byte is looked at once.
_PART: Final = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
_WAIT: Final = re.compile(
    rb'[ \t]*wait[ \t]*=[ \t]*("?)0*([0-9]+)\1[ \t]*(?:;.*)?', re.DOTALL | re.IGNORECASE
)
_NAME: Final = re.compile(rb"[ \t]*wait[ \t]*(?:[=;].*)?", re.DOTALL | re.IGNORECASE)
_SHORT: Final = len(str(MOST_S))


def wait_s(prefer: bytes) -> int | None:
    """Return how many whole seconds, 1 to 60, these preferences ask to wait; None when they do not.

    Several fields are joined with commas (RFC 9110, 5.3).
    """
    first = next((part for part in _PART.findall(prefer) if _NAME.fullmatch(part)), None)
    found = None if first is None else _WAIT.fullmatch(first)
    if found is None:
        return None
    digits = found[2]
    seconds = MOST_S if len(digits) > _SHORT else min(MOST_S, int(digits))
    return seconds or None
