"""When a webhook is tried again, and when it is given up. Pure.

Rules:

1. An answer of 2xx is a delivery. 410 ends it: the receiver wants no more of it. Anything else is tried again: another
   status (a redirect is not followed), no answer in time, no connection, an address that is not allowed, since what a
   name leads to may change.
2. Each wait is three times the last one, and four hours at most, give or take a fifth by chance, so that what failed
   together is not tried together.
3. `Retry-After` is waited for at least, whatever the status.
4. That goes on for a day from when it was first due. What would come later is tried at the end of the day instead, so
   the last try is a day after the first one; when that fails too, it is given up.
5. Tries are counted from the start of the day: who asks for a fresh day begins with the first wait.
"""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, Literal

DAY_MS: Final = 86_400_000
FACTOR: Final = 3
MOST_WAIT_MS: Final = 4 * 3_600_000
JITTER: Final = 0.2
# Past so many threefold waits even the shortest first one is at the longest.
_MOST_STEPS: Final = 20


class Outcome(StrEnum):
    """What a try came to; but for the first it is the record's `last_error`."""

    DELIVERED = "delivered"
    GONE = "gone"
    STATUS = "status"
    TIMEOUT = "timeout"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    PROTOCOL = "protocol"
    NOT_ALLOWED = "not_allowed"
    INTERNAL = "internal"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One try: ``status`` is None without an answer, ``retry_after_ms`` where the answer asks for none."""

    outcome: Outcome
    status: int | None = None
    retry_after_ms: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the receiver is there."""
        return self.status is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What follows from a try; ``due_ms`` is when it is tried again, None where it is not."""

    state: Literal["pending", "delivered", "failed"]
    due_ms: int | None = None


def answered(status: int, *, retry_after: str = "", now_ms: float = 0) -> Tried:
    """Return what an answer with this status and `Retry-After` makes of a try."""
    if 200 <= status < 300:
        return Tried(outcome=Outcome.DELIVERED, status=status)
    outcome = Outcome.GONE if status == 410 else Outcome.STATUS
    return Tried(outcome=outcome, status=status, retry_after_ms=retry_after_ms(retry_after, now_ms))


def decide(
    tried: Tried, *, tries: int, since_ms: float, now_ms: float, first_wait_ms: float, spread: float
) -> Decision:
    """Say what follows from a try, the ``tries``-th of its day; ``spread`` is by chance, from 0 to 1."""
    if tried.outcome is Outcome.DELIVERED:
        return Decision(state="delivered")
    end_ms = since_ms + DAY_MS
    if tried.outcome is Outcome.GONE or now_ms >= end_ms:
        return Decision(state="failed")
    wait_ms = wait_after(tries, first_wait_ms) * (1 + JITTER * (2 * spread - 1))
    due_ms = now_ms + max(wait_ms, tried.retry_after_ms or 0)
    return Decision(state="pending", due_ms=round(min(due_ms, end_ms)))


def wait_after(tries: int, first_wait_ms: float) -> float:
    """Return how long is waited after so many tries, without what chance adds."""
    return float(min(first_wait_ms * FACTOR ** min(tries - 1, _MOST_STEPS), MOST_WAIT_MS))


def retry_after_ms(text: str, now_ms: float) -> float | None:
    """Read a `Retry-After`, in seconds or as a date; None for neither, and for what is over already."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        # More than a day is a day, however many digits it has.
        wait_ms = min(float(text[:10]) * 1000, DAY_MS) if len(text) <= 10 else DAY_MS
    else:
        try:
            at = parsedate_to_datetime(text)
            wait_ms = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000 - now_ms
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return wait_ms if wait_ms > 0 else None
