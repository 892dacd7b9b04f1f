"""What rounds have seen: bare loops, then each arm at each level and at saturation. Pure.

1. Levels are shares of the best simple bare loop, `SIMPLE`: those that know no lengths, as the peers' batching knows
   none. All rounds and arms have the same rates, and in a round the same arrivals and texts.
2. An arm keeps up with a level when `KEPT_UP` of its requests are answered within `IN_TIME_MS`. Where it does not,
   times grow with the length of the run and say nothing: that is told, and higher levels are left out.
3. Times are of all requests of the rounds in which the arm kept up, their histograms added up: the p99 of a few
   hundred requests of one round hangs on two or three of them. Rates are medians of rounds.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loadgen.latencies import Latencies

SHARES: Final = (0.30, 0.60, 0.80, 0.95)
# Of `loadgen.bareloops`.
SIMPLE: Final = ("arrival order", "one by one")
KEPT_UP: Final = 0.99
IN_TIME_MS: Final = 2_000.0


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """An arm at one level.

    ``share`` of the bare loop's rate was offered, ``rate`` a second. Times count from when a request was due to its
    answer, or to the pushed frame; ``encoded`` is their whole histogram. ``cpu_ms`` is of all processes, for a request
    that was answered. ``invalid`` says why the times may be the generator's.
    """

    share: float
    rate: float
    offered: int
    answered: int
    errors: dict[str, int]
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    encoded: str
    invalid: list[str]

    @property
    def kept_up(self) -> bool:
        """Whether nearly all were answered in time."""
        return self.answered >= KEPT_UP * self.offered and self.p99_ms <= IN_TIME_MS


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm did in a round: its levels, and requests a second at saturation with those refused by status."""

    levels: list[Level]
    saturated_per_s: float
    refused: dict[str, int]

    def level(self, share: float) -> Level | None:
        """Return the level of a share, None where it was left out."""
        return next((level for level in self.levels if level.share == share), None)


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: texts a second of the bare loops, what arms did, and why others did nothing."""

    bare: dict[str, float]
    arms: dict[str, Arm]
    failed: dict[str, str]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All rounds of one model, whose kind is builtin or full-size; ``loop`` does ``rate`` texts a second."""

    kind: str
    loop: str
    rate: float
    rounds: list[Round]

    def ours(self) -> list[str]:
        """Return the names of our arms."""
        return [name for name in self.names() if name.startswith(OURS)]

    def peers(self) -> list[str]:
        """Return the names of the peers that were measured in every round."""
        return [name for name in self.names() if not name.startswith(OURS)]

    def names(self) -> list[str]:
        """Return the arms that were measured in every round, in the first one's order."""
        return [name for name in self.rounds[0].arms if all(name in one.arms for one in self.rounds)]

    def failed(self) -> dict[str, str]:
        """Return why arms failed, the first reason of each."""
        found: dict[str, str] = {}
        for one in self.rounds:
            for name, reason in one.failed.items():
                found.setdefault(name, reason)
        return found

    def kept_up(self, name: str, share: float) -> bool:
        """Say whether an arm kept up with a level in most rounds."""
        return len(self._kept(name, share)) > len(self.rounds) / 2

    def latencies(self, name: str, share: float) -> Latencies:
        """Return the times of an arm at a level, of the rounds in which it kept up, added up."""
        found = Latencies()
        for level in self._kept(name, share):
            found.merge(Latencies.decode(level.encoded))
        return found

    def p50_ms(self, name: str, share: float) -> float:
        """Return the median time at a level; nan for none."""
        return self.latencies(name, share).percentile_ms(0.5)

    def p99_ms(self, name: str, share: float) -> float:
        """Return the 99th percentile of the times at a level; nan for none."""
        return self.latencies(name, share).percentile_ms(0.99)

    def p99s_ms(self, name: str, share: float) -> list[float]:
        """Return the p99 of each round by itself, of those in which the arm kept up."""
        return [level.p99_ms for level in self._kept(name, share)]

    def cpu_ms(self, name: str, share: float) -> float:
        """Return the median of the CPU for a request over the rounds in which the arm kept up; nan for none."""
        found = [level.cpu_ms for level in self._kept(name, share)]
        return statistics.median(found) if found else math.nan

    def throughput(self, name: str) -> float:
        """Return the median of requests a second at saturation."""
        return statistics.median(one.arms[name].saturated_per_s for one in self.rounds)

    def invalid(self, name: str) -> int:
        """Return how many of an arm's runs may tell of the generator."""
        return sum(bool(level.invalid) for one in self.rounds for level in one.arms[name].levels)

    def errors(self, name: str) -> int:
        """Return how many requests of an arm had no answer, at levels that it kept up with."""
        return sum(
            level.offered - level.answered
            for one in self.rounds
            for level in one.arms[name].levels
            if level.kept_up
        )

    def _kept(self, name: str, share: float) -> list[Level]:
        return [level for level in self._levels(name, share) if level is not None and level.kept_up]

    def _levels(self, name: str, share: float) -> list[Level | None]:
        return [one.arms[name].level(share) for one in self.rounds]


OURS: Final = "ours"


def our_name(broker: str) -> str:
    """Return the name of our arm with a broker."""
    return f"{OURS} ({broker})"


def best_simple(bare: Mapping[str, float]) -> tuple[str, float]:
    """Return name and rate of the best simple loop."""
    name = max(SIMPLE, key=lambda one: bare[one])
    return name, bare[name]


def turned(names: Sequence[str], number: int) -> list[str]:
    """Return the arms in the order of a round, so that none always comes first."""
    start = number * 3 % len(names) if names else 0
    return [*names[start:], *names[:start]]
