"""Who may work on the first answer to an idempotency key, and what becomes of his claim. Pure.

1. One claimant at a time. His claim names a seed that every job id comes from, chosen before he works: whoever takes
   the claim over has the same seed, so what was accepted already is recognised, and no job is made twice.
2. A claim that is older than any work may take is taken over. Its claimant has died or is frozen; if he comes back,
   his answer is not kept, and it is the same one.
3. A claimant whose work is refused forgets his claim, and the next asker has a seed of his own. An error is never kept
   as the answer. A refusal before anything was begun is one as well: work that is resumed is not charged to a quota, so
   nobody may come by a seed to resume without having been charged.
4. A seed is not forgotten as long as nobody knows what became of it: when its work was cut off, or Redis or the broker
   was away, or another began with it. It is the next asker's, who need not wait for the claim's age.
5. A seed whose job has ended without ever having been accepted is spent: the claim is forgotten, and work begins anew.
"""

import re
from typing import Any, Final

import msgspec

from inferq.errors import CircuitOpen, HttpError, InferqError, Unavailable
from ingress.admission import Crowded

_SEED: Final = re.compile(rb"[0-9a-f]{32}")


class SeedSpent(InferqError):
    """The seed's job was recorded and has ended, but was never accepted: nobody may be answered with it."""


class Mine(msgspec.Struct, frozen=True, kw_only=True):
    """The claim is ours; ``resumed`` says that another began with this seed."""

    seed: str
    resumed: bool


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The first answer, as it was kept."""

    answer: bytes
    location: str | None


class Pending(msgspec.Struct, frozen=True):
    """Another works on the first answer."""


class Mismatch(msgspec.Struct, frozen=True):
    """The key is another request's."""


class Foreign(msgspec.Struct, frozen=True):
    """What is kept under the key is none of ours."""


Look = Mine | Kept | Pending | Mismatch | Foreign


def read_look(reply: Any) -> Look:
    """Read what `CLAIM` answers; anything unexpected is foreign."""
    match reply:
        case [b"claimed" | b"taken_over" as how, bytes(seed)] if _SEED.fullmatch(seed):
            return Mine(seed=seed.decode(), resumed=how == b"taken_over")
        case [b"kept", bytes(answer), bytes(location)] if answer and location.isascii():
            return Kept(answer=answer, location=location.decode() or None)
        case [b"pending"]:
            return Pending()
        case [b"mismatch"]:
            return Mismatch()
        case _:
            return Foreign()


def is_forgotten(error: BaseException, *, resumed: bool) -> bool:
    """Say whether the claim is forgotten after work has raised; otherwise its seed is the next asker's."""
    if isinstance(error, SeedSpent):
        return True
    unknown = isinstance(error, Unavailable) and not isinstance(error, Crowded)
    if isinstance(error, CircuitOpen):
        unknown = error.begun
    return not resumed and isinstance(error, HttpError) and not unknown
