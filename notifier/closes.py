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
