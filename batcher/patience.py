"""How long a run may take before its engine counts as hung. Pure."""

from dataclasses import dataclass
from typing import Final

# Within this no engine counts as hung, however little was predicted: a busy machine may hold any process up.
HANG_FLOOR_MS: Final = 2_000.0


@dataclass(frozen=True, kw_only=True)
class Patience:
    """A run may take ``hang_factor`` times as long as predicted, at most ``timeout_ms``."""

    timeout_ms: int
    hang_factor: int

    def most_ms(self, predicted_ms: float) -> float:
        """Return how long a run may take that was predicted to take so long."""
        return min(self.timeout_ms, max(HANG_FLOOR_MS, self.hang_factor * predicted_ms))
