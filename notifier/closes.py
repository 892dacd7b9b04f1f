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

_OURS: Final = frozenset(
    (DONE, RESTART, UNANSWERED, TOO_SLOW, BAD_MESSAGE, NO_KEY, WRONG_ORIGIN, UNKNOWN_JOB, TOO_MANY, LOST)
)
# What clients and the protocol close with: going away, a protocol error, no code, no UTF-8, too big.
_USUAL: Final = frozenset((1001, 1002, 1005, 1007, 1009))


def label(code: int) -> str:
    """Return what a code is counted as: clients may close with some two thousand, and each would be a metric."""
    return str(code) if code in _OURS or code in _USUAL else "other"
