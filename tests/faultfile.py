"""A file that orders faults from every simulated engine whose model names it, for as long as it is there."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FaultFile:
    """Not there until something is ordered; a batcher is to be warm before that."""

    path: Path

    @property
    def model(self) -> str:
        """A model that obeys it."""
        return f"simulated:1,0.1,faults={self.path}"

    def order(self, fault: str) -> None:
        """Order a fault from each run (raise, crash, hang), or from each start (load)."""
        self.path.write_text(fault, encoding="utf-8")

    def clear(self) -> None:
        """Order nothing any more."""
        self.path.unlink()
