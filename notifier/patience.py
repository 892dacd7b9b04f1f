"""How long the notifier waits for a client."""

from dataclasses import dataclass
from typing import Final

# How often it is looked, within the time for that, whether a client takes anything.
STALL_LOOKS: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long a connection waits for its client, in seconds."""

    open_s: float = 10.0
    auth_s: float = 5.0
    ping_every_s: float = 20.0
    stall_s: float = 10.0
    close_s: float = 2.0
