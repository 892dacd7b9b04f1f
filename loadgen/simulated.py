"""The ideal of a run, simulated from its own plan, with what the batcher fitted and the lengths of the texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferq.settings import Settings
from loadgen.fitted import Fitted, read_fitted
from loadgen.generator.plan import Plan, due_s, texts_of
from loadgen.ideal import Course, arrivals, counted
from loadgen.tokens import tokens_of

# Beyond this many jobs the simulation of a level would take longer than a level.
MOST_JOBS = 200_000


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A plan's ideal, and the tokens of its texts in their order."""

    course: Course
    lengths: list[int]


def fitted_of(settings: Settings, warm: Mapping[str, Any]) -> Fitted:
    """Return what the batcher fitted; raises `ValueError` where one batcher's fit does not tell of the pipeline."""
    if settings.batchers > 1:
        raise ValueError("the simulator is of one batcher")
    return read_fitted(warm)


def simulated_plan(plan: Plan, settings: Settings, fitted: Fitted) -> Simulated:
    """Simulate a plan; raises `ValueError` when it is too long for that."""
    due = due_s(plan.schedule, plan.seed)
    if len(due) > MOST_JOBS:
        raise ValueError(f"more than {MOST_JOBS:,} jobs are not simulated")
    lengths = tokens_of(settings.model, texts_of(plan.inputs, len(due), plan.seed))
    found = counted(
        fitted, settings, arrivals(plan, lengths), opens_s=plan.warm_s, closes_s=plan.schedule.seconds
    )
    return Simulated(course=found, lengths=lengths)
