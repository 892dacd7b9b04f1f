"""With which codes connections are closed. A refusal accepts first and then closes, so that browsers see the code."""

from typing import Final

DONE: Final = 1000
RESTART: Final = 1012
UNANSWERED: Final = 1011
"""A ping was not answered."""
FAILED: Final = 1011
"""A fault of ours."""
TOO_SLOW: Final = 4008
BAD_MESSAGE: Final = 4400
NO_KEY: Final = 4401
WRONG_ORIGIN: Final = 4403
UNKNOWN_JOB: Final = 4404
TOO_MANY: Final = 4429
LOST: Final = 1006
"""The connection ended without a close."""

_OURS: Final = frozenset({TOO_SLOW, BAD_MESSAGE, NO_KEY, WRONG_ORIGIN, UNKNOWN_JOB, TOO_MANY})
_STANDARD: Final = range(1000, 1016)


def label(code: int) -> str:
    """Return a code as metrics show it: a client may choose among 2,000 that mean nothing, and these are one."""
    return str(code) if code in _STANDARD or code in _OURS else "other"
