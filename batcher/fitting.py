"""The largest batch that the device has memory for, learnt from those that it had not. Pure.

1. A batch that runs out of memory is a batch that failed: the engine lives, and its jobs are run again in halves.
2. What failed bounds all that come: half of its padded tokens at most, or the largest that has fitted below it.
3. Memory may be short because of a neighbour, which ends some day. After `PATIENCE` batches without a failure the bound
   doubles, up to what the settings allow. Where more was tried and failed again, that patience doubles, up to
   `MOST_PATIENCE`: a device that is simply too small is tried ever more rarely.
4. One row that does not fit has no half. It is run once more with the device for itself, then its job has failed.
"""

from dataclasses import dataclass, field
from typing import Final

PATIENCE: Final = 256  # batches
MOST_PATIENCE: Final = 65_536


@dataclass(kw_only=True)
class Fitting:
    """Bounds the padded tokens of a batch; ``most_tokens`` is what the settings allow."""

    most_tokens: int
    failures: int = 0
    limit: int = field(init=False)
    _largest: int = 0
    _since: int = 0
    _patience: int = PATIENCE
    _raised: bool = False

    def __post_init__(self) -> None:
        self.limit = self.most_tokens

    @property
    def bounded(self) -> bool:
        """Whether batches are smaller than the settings allow."""
        return self.limit < self.most_tokens

    def failed(self, tokens: int) -> None:
        """Note that a batch of so many padded tokens ran out of memory."""
        self.failures += 1
        known = self._largest if self._largest < tokens else 0
        self._largest = known
        self.limit = max(1, min(self.limit, max(tokens // 2, known)))
        if self._raised:
            self._patience = min(MOST_PATIENCE, self._patience * 2)
        self._since, self._raised = 0, False

    def fitted(self, tokens: int) -> None:
        """Note that a batch of so many padded tokens had its answer."""
        self._largest = max(self._largest, tokens)
        if not self.bounded:
            return
        self._since += 1
        if self._since >= self._patience:
            self.limit, self._since, self._raised = min(self.most_tokens, self.limit * 2), 0, True
