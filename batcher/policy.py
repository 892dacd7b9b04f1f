"""When a batch closes. Pure: `now` comes in, a decision goes out.

Rules:

1. A full batch closes at once, whatever the policy: full of jobs, or of tokens.
2. `greedy` closes as soon as the engine is free and anything waits. While a batch computes, the next one fills.
3. `fixed` also waits for company, until `max_wait_ms` after the arrival of the oldest job in the window. The window is
   anchored to that arrival: neither a later arrival nor the time that the engine was busy starts it anew.
4. The engine is free whenever a policy is asked.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from inferq.errors import OperatorError


class CloseReason(StrEnum):
    """Why a batch closed, as records and metrics show it."""

    FULL = "full"
    WINDOW = "window"
    GREEDY = "greedy"
    TOKENS = "tokens"
    SPLIT = "split"


@dataclass(frozen=True, kw_only=True)
class View:
    """What a policy sees of the window: how many jobs wait, the oldest one's arrival (s), and whether the next batch
    would be cut short by its tokens."""

    jobs: int
    oldest_at_s: float
    tokens_full: bool


@dataclass(frozen=True, kw_only=True)
class Close:
    """Run the next batch now."""

    reason: CloseReason


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Ask again when something arrives, or at ``until_s`` at the latest."""

    until_s: float | None


Decision = Close | Wait


class Policy(Protocol):
    """Decides when the next batch closes."""

    def decide(self, view: View, now_s: float) -> Decision:
        """Return what to do at ``now_s``, on the clock of `View.oldest_at_s`."""


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Never waits."""

    max_batch_size: int

    def decide(self, view: View, now_s: float) -> Decision:
        """Close with whatever there is."""
        if not view.jobs:
            return Wait(until_s=None)
        return _full(view, self.max_batch_size) or Close(reason=CloseReason.GREEDY)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Waits for a full batch until ``max_wait_ms`` after the oldest arrival."""

    max_batch_size: int
    max_wait_ms: int

    def decide(self, view: View, now_s: float) -> Decision:
        """Close a full batch, or at the end of the window."""
        if not view.jobs:
            return Wait(until_s=None)
        if full := _full(view, self.max_batch_size):
            return full
        ends_s = view.oldest_at_s + self.max_wait_ms / 1000
        return Close(reason=CloseReason.WINDOW) if now_s >= ends_s else Wait(until_s=ends_s)


def make_policy(name: str, *, max_batch_size: int, max_wait_ms: int) -> Policy:
    """Return the policy of that name; `fixed` that waits for nothing is `greedy`."""
    if name == "greedy" or (name == "fixed" and max_wait_ms == 0):
        return Greedy(max_batch_size=max_batch_size)
    if name == "fixed":
        return Fixed(max_batch_size=max_batch_size, max_wait_ms=max_wait_ms)
    raise OperatorError(f"there is no batch policy {name!r}: take fixed or greedy")


def _full(view: View, max_batch_size: int) -> Close | None:
    if view.jobs >= max_batch_size:
        return Close(reason=CloseReason.FULL)
    return Close(reason=CloseReason.TOKENS) if view.tokens_full else None
