"""Which of many failures in a row are worth a line: the first, then ever rarer ones. Pure."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Sparsely:
    """Says when to tell; the distances between tellings double from ``first_s`` to ``most_s``.

    Times are seconds of one clock that never goes back.
    """

    first_s: float = 10.0
    most_s: float = 300.0
    _next_s: float | None = field(default=None, init=False)
    _distance_s: float = field(default=0.0, init=False)

    def due(self, now_s: float) -> bool:
        """Say whether this failure is to be told."""
        if self._next_s is not None and now_s < self._next_s:
            return False
        self._distance_s = min(self.most_s, 2 * self._distance_s or self.first_s)
        self._next_s = now_s + self._distance_s
        return True

    def reset(self) -> None:
        """Start over, after a success."""
        self._next_s, self._distance_s = None, 0.0
