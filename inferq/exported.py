"""What an export made, and how that is told."""

from dataclasses import dataclass
from pathlib import Path

from inferq.head import SINGLE_LABEL


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export made; ``layers`` is 0 when the model's config does not say how many it has."""

    path: Path
    precision: str
    labels: tuple[str, ...]
    max_length: int
    layers: int
    fused_attention: int
    size_bytes: int
    answers: str = SINGLE_LABEL.text

    def summary(self) -> str:
        """Return one line for the operator."""
        labels = f"labels {', '.join(self.labels) or 'not named'}"
        if self.answers != SINGLE_LABEL.text:
            labels = self.answers + (f" ({labels})" if self.labels else "")
        fused = f"{self.fused_attention} of {self.layers}" if self.layers else str(self.fused_attention)
        return (
            f"{self.path}: {self.precision}, {self.size_bytes / 1e6:.0f} MB, {fused} attention "
            f"layers fused, {labels}, up to {self.max_length} tokens"
        )
