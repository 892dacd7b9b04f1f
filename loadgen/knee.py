"""Where a server's curve of load bends, read off levels of offered load. Pure.

1. A level keeps up while at least `Rule.keeps_up` of what was offered was done in the same time, and its tail is at
   most `Rule.tail` times the tail of the lightest level. Both count: a short run can hide a queue that grows, and a
   long one shows it in the tail first.
2. The knee is the highest offered rate up to which every level keeps up. A level that keeps up beyond one that did not
   is luck, and does not move it.
3. Between the last level that kept up and the first that did not, each limit is crossed somewhere: the share done
   falls in a straight line, the tail grows by equal factors. The knee is the first crossing.
4. A level must be long enough: what is under way when it ends counts as not done, so with a share of 0.98 the jobs
   under way (two full batches a lane, say) must be well below 2 % of all, or the knee is found too early.
5. A level at which nothing was done did not keep up, and has no tail: its share alone tells where the knee is.
6. Saturation is the median of what the overloaded levels did, those which fell short of `Rule.keeps_up`. It is what
   the server gives when there is always work, and needs no limit of latency.

`tail` is 25 because a server without batches whose times do not vary (M/D/1) has a p99 of 25 times a job's own time at
about nine tenths of its capacity, and of 25 times that at a fifth of its capacity at about 96 %. One with batches stays
below for longer, as its batches grow first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Level:
    """What was offered and what was done (jobs/s) over the same time, and the 99th percentile of latency (ms).

    The percentile is infinite where nothing was done.
    """

    offered: float
    achieved: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The least share of the offered that is done, and the most that the tail may be over the lightest level's."""

    keeps_up: float = 0.98
    tail: float = 25.0

    def words(self) -> str:
        """Return the rule as a report says it."""
        return (
            f"the highest offered rate up to which at least {self.keeps_up:.0%} of it was done"
            f" and p99 was at most {self.tail:g} times that of the lightest level,"
            " interpolated between levels"
        )


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The knee and saturation, both in jobs/s, and by which rule.

    ``rate`` is None when no level kept up or all did, which ``kept_up`` (how many did from the lightest on) tells
    apart. ``saturation`` is None when no level was overloaded.
    """

    rate: float | None
    saturation: float | None
    kept_up: int
    rule: str


def find(levels: Sequence[Level], rule: Rule | None = None) -> Knee:
    """Return the knee of levels in any order.

    Raises:
        ValueError: there is no level, two offer the same, one offers nothing, or its p99 is not above 0 or does not go
            with what it did.
    """
    rule = rule or Rule()
    ordered = sorted(levels, key=lambda level: level.offered)
    _check(ordered)
    most_ms = rule.tail * ordered[0].p99_ms
    kept_up = 0
    while kept_up < len(ordered) and _keeps_up(ordered[kept_up], rule, most_ms):
        kept_up += 1
    overloaded = [level.achieved for level in ordered if level.achieved < rule.keeps_up * level.offered]
    return Knee(
        rate=_crossing(ordered[kept_up - 1], ordered[kept_up], rule, most_ms)
        if 0 < kept_up < len(ordered)
        else None,
        saturation=median(overloaded) if overloaded else None,
        kept_up=kept_up,
        rule=rule.words(),
    )


def _check(ordered: Sequence[Level]) -> None:
    if not ordered:
        raise ValueError("no level to find a knee in")
    for level in ordered:
        # Written so that nan fails.
        if not (level.offered > 0 and level.achieved >= 0 and level.p99_ms > 0):
            raise ValueError(
                f"what a level offers and its p99 must be above 0, and what it did not below: {level}"
            )
        if (level.achieved == 0) != (level.p99_ms == inf):
            raise ValueError(
                f"a level has a p99 where something was done, and infinity where nothing was: {level}"
            )
    if len({level.offered for level in ordered}) < len(ordered):
        raise ValueError("two levels offer the same rate")


def _keeps_up(level: Level, rule: Rule, most_ms: float) -> bool:
    return level.achieved >= rule.keeps_up * level.offered and level.p99_ms <= most_ms


def _crossing(below: Level, above: Level, rule: Rule, most_ms: float) -> float:
    """Return the rate between two levels at which the first limit is crossed."""
    parts = []
    below_share, above_share = below.achieved / below.offered, above.achieved / above.offered
    if above_share < rule.keeps_up:
        parts.append((below_share - rule.keeps_up) / (below_share - above_share))
    if most_ms < above.p99_ms < inf:
        parts.append(log(most_ms / below.p99_ms) / log(above.p99_ms / below.p99_ms))
    return below.offered + min(parts) * (above.offered - below.offered)
