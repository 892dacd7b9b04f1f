"""A sweep's levels, and what they come to: the knee, saturation, and which levels are not to be trusted. Pure."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from loadgen import knee
from loadgen.sweeping import inflight
from loadgen.sweeping.row import Row

# How a report says when it began.
STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
Loop = Literal["open", "closed"]


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded, for the report; empty or None where it is not known, as of a pipeline that ran already."""

    url: str = ""
    broker: str = ""
    model: str = ""
    precision: str = ""
    config: str = ""
    batchers: int | None = None
    most_rows: int | None = None
    lanes: int | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The knee and saturation in jobs/s (the knee of a closed loop in requests in flight), None for none, and the rule.

    ``why`` says why there is no knee.
    """

    knee: float | None
    saturation: float | None
    rule: str
    why: str = ""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """One sweep; ``capacity`` is what the levels were laid around, None where they were given.

    ``no_ideal`` and ``no_closed_form`` say why they stand beside no level. ``planned`` levels were to be run.
    """

    loop: Loop
    server: Server
    seed: int
    began_at: str
    rows: Sequence[Row]
    planned: int
    capacity: float | None = None
    budget_ms: float = 200.0
    no_ideal: str = ""
    no_closed_form: str = ""

    @property
    def whole(self) -> bool:
        """Whether all levels were run."""
        return len(self.rows) == self.planned

    @property
    def broken(self) -> list[Row]:
        """Levels that break Little's law."""
        return [row for row in self.rows if row.law is not None and not row.law.holds]


def found(swept: Swept) -> Found:
    """Return the knee of a sweep, by the rule of its loop."""
    if swept.loop == "closed":
        bend = inflight.bend(swept.rows)
        best = max((row.achieved for row in swept.rows), default=0.0)
        return Found(
            knee=bend,
            saturation=best or None,
            rule=inflight.RULE,
            why="" if bend else "nothing was done at the lightest level",
        )
    levels = _judged(swept.rows)
    if not levels:
        return Found(knee=None, saturation=None, rule=knee.Rule().words(), why="no level can be judged")
    seen = knee.find(levels)
    why = ""
    if seen.rate is None:
        why = (
            "every level kept up: go on to higher ones"
            if seen.kept_up
            else "the lightest level did not keep up: begin with a lower one"
        )
    return Found(knee=seen.rate, saturation=seen.saturation, rule=seen.rule, why=why)


def _judged(rows: Sequence[Row]) -> list[knee.Level]:
    """Return the levels of an open loop; of two that chance let offer the same, the one that did less."""
    least: dict[float, knee.Level] = {}
    for level in (row.curve for row in rows):
        if level is not None and (
            level.offered not in least or level.achieved < least[level.offered].achieved
        ):
            least[level.offered] = level
    return list(least.values())
