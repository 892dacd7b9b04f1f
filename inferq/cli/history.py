"""What `/v1/stats` said over the last minutes, and lines that show its course. Pure; times come in.

1. At most `MOST_SAMPLES` are kept, however often and however long somebody looks.
2. Counts of batches begin anew with each batcher, so what happened between two samples is their difference only where
   no count went back; where one did, it is the later count.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MOST_SAMPLES: Final = 600
BATCHES_OVER_S: Final = 60.0
_STEPS: Final = "▁▂▃▄▅▆▇█"

Found = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the batchers ran over some time: batches by size and by why they closed, and their tokens."""

    over_s: float
    sizes: Mapping[str, int]
    reasons: Mapping[str, int]
    tokens: int
    padded_tokens: int

    @property
    def padding(self) -> float | None:
        """Which share of the tokens was padding; None where nothing ran."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else None


class History:
    """The last samples, the newest last."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Found]] = deque(maxlen=MOST_SAMPLES)

    def add(self, at_s: float, found: Found) -> None:
        """Keep what was found at a time that does not go back."""
        self._samples.append((at_s, found))

    @property
    def latest(self) -> Found | None:
        """The newest sample, if any."""
        return self._samples[-1][1] if self._samples else None

    @property
    def span_s(self) -> float:
        """How long ago the oldest sample is from the newest."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0.0

    def course(self, name: str) -> list[float]:
        """Return a figure of the queue over time."""
        return [float(found["queue"][name]) for _, found in self._samples]

    def batches(self) -> Batches:
        """Return what was run over the last minute; since the batchers started where there is one sample only."""
        if not self._samples:
            return Batches(over_s=0.0, sizes={}, reasons={}, tokens=0, padded_tokens=0)
        at_s, found = self._samples[-1]
        new, old, over_s = found["batches"], {}, 0.0
        for then_s, sample in self._samples:
            if at_s - then_s <= BATCHES_OVER_S and then_s < at_s:
                old, over_s = sample["batches"], at_s - then_s
                break
        tokens, padded = _since(new, old, "tokens"), _since(new, old, "padded_tokens")
        return Batches(
            over_s=over_s,
            sizes=_counts(new["size_histogram"], old.get("size_histogram", {})),
            reasons=_counts(new["close_reasons"], old.get("close_reasons", {})),
            tokens=tokens,
            padded_tokens=max(tokens, padded),
        )


def _since(new: Mapping[str, int], old: Mapping[str, int], name: str) -> int:
    now, then = new[name], old.get(name, 0)
    return now - then if now >= then else now


def _counts(new: Mapping[str, int], old: Mapping[str, int]) -> dict[str, int]:
    between = {name: _since(new, old, name) for name in new}
    return {name: count for name, count in between.items() if count}


def sparkline(values: Sequence[float], width: int) -> str:
    """Return values, none below 0, as ``width`` characters at most, the newest last; those that share one: the most."""
    if not values:
        return ""
    group = -(-len(values) // width)
    # Counted from the newest, so that a group's members stay together only as long as their number does.
    cells = [max(values[max(0, end - group) : end]) for end in range(len(values), 0, -group)][::-1]
    most = max(cells)
    if most <= 0:
        return _STEPS[0] * len(cells)
    return "".join(_STEPS[min(len(_STEPS) - 1, int(cell / most * len(_STEPS)))] for cell in cells)


def by_doubling(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return batches by size in few rows: 1, 2, 3-4, 5-8 and so on, without empty rows at either end."""
    rows: dict[int, int] = {}
    for size, count in sizes.items():
        place = (int(size) - 1).bit_length()
        rows[place] = rows.get(place, 0) + count
    if not rows:
        return []
    return [(_range(place), rows.get(place, 0)) for place in range(min(rows), max(rows) + 1)]


def _range(place: int) -> str:
    low, high = 2**place // 2 + 1, 2**place
    return f"{high}" if low >= high else f"{low}-{high}"
