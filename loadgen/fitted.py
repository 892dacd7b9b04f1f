"""What a batcher fitted at its warm-up, read from the line that it logs, and the planner made of it. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from batcher.cost import Cost, CostModel
from batcher.outcomes import Result
from batcher.planner import Planner
from batcher.policy import make_policy
from batcher.simulator import learnt, simulate
from batcher.traffic import Arrival
from batcher.waiting import Waiting
from inferq.settings import Settings

_RUNS: Final = re.compile(r"(\d+) x ")
_COEFFICIENT: Final = re.compile(r"(\w+)=([-+.\deE]+)")


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How many batches run at a time, what one costs in its lane and on all threads, and the lane's margin."""

    lanes: int
    lane: Cost
    wide: Cost | None
    margin: float


def read_fitted(line: Mapping[str, Any]) -> Fitted:
    """Return what the batcher's line on its warm-up says; raises `ValueError` for a line that says something else."""
    runs = _RUNS.match(str(line.get("layout")))
    lane = line.get("cost")
    if runs is None or not lane:
        raise ValueError("the batcher did not log what it fitted at its warm-up")
    wide = line.get("cost_wide")
    return Fitted(
        lanes=int(runs[1]),
        lane=_cost(lane),
        wide=_cost(wide) if wide else None,
        margin=float(line.get("margin", 0.0)),
    )


def simulated_ms(fitted: Fitted, settings: Settings, arrivals: Sequence[Arrival]) -> list[float]:
    """Return how long each of the arrivals takes with the settings' policy on a virtual clock, ascending."""
    return sorted(one.latency_ms for one in simulated(fitted, settings, arrivals).outcomes)


def simulated(fitted: Fitted, settings: Settings, arrivals: Sequence[Arrival]) -> Result:
    """Return what comes of the arrivals with the settings' policy on a virtual clock.

    Batches take exactly what was fitted, and everything beside the engine takes no time.
    """
    planner: Planner[Waiting] = Planner(
        policy=make_policy(
            settings.batch_policy, max_batch_size=settings.max_batch_size, max_wait_ms=settings.max_wait_ms
        ),
        lane=_model(fitted.lane, fitted.margin),
        wide=_model(fitted.wide, fitted.margin) if fitted.wide is not None else None,
        lanes=fitted.lanes,
        max_batch_size=settings.max_batch_size,
        max_batch_tokens=settings.max_batch_tokens,
    )
    return simulate(
        planner,
        arrivals,
        fitted.lane.batch_ms,
        wide=fitted.wide.batch_ms if fitted.wide is not None else None,
        slo_ms=settings.slo_ms,
    )


def _model(cost: Cost, margin: float) -> CostModel:
    model = learnt(cost.batch_ms)
    model.margin = margin
    return model


def _cost(text: object) -> Cost:
    """Read a cost as it is logged: its fields by name, or the text of them."""
    found = text if isinstance(text, Mapping) else dict(_COEFFICIENT.findall(str(text)))
    try:
        return Cost(**{name: float(value) for name, value in found.items()})
    except TypeError as error:
        raise ValueError("the batcher logged a cost with other terms than ours") from error
