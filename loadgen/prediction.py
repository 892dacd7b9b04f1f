"""At 70 % load: how long jobs take beside what the simulator says of the same arrivals, policy and fitted cost.

The cost is what the batcher fitted at its warm-up, with nothing else to do. In the simulation nothing but the engine
takes time, so what ingress, store, broker and the batcher itself take is in the excess, and so is what they take from
the engine's cores.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from batcher.traffic import Arrival
from inferq.errors import OperatorError
from inferq.settings import Settings, load
from loadgen.deployment import deployed
from loadgen.figures import Figure, at_most, percentile
from loadgen.fitted import read_fitted, simulated_ms
from loadgen.openloop import Offered, offered
from loadgen.tokens import tokens_of

LOAD: Final = 0.70
GOALS: Final = {0.5: 1.15, 0.99: 1.4}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Measured and simulated times (ms) by percentile."""

    measured_ms: dict[float, float]
    simulated_ms: dict[float, float]


async def rounds(
    model: str, *, capacity: float, count: int, seconds: float, say: Callable[[str], None]
) -> list[Compared]:
    """Load a deployment of its own in each round, and simulate what it was sent."""
    settings, _ = load({}, {"model": model})
    found = []
    for number in range(count):
        async with deployed("streams", model=model) as deployment:
            run = await offered(deployment, rate=LOAD * capacity, seconds=seconds, seed=number)
            try:
                fitted = read_fitted(deployment.warm)
            except ValueError as error:
                raise OperatorError(str(error)) from error
        simulated = simulated_ms(fitted, settings, arrivals(run, settings))
        one = Compared(
            measured_ms={share: run.total_ms(share) for share in GOALS},
            simulated_ms={share: percentile(simulated, share) for share in GOALS},
        )
        found.append(one)
        say(
            f"{LOAD:.0%} load, round {number + 1} of {count}: "
            + ", ".join(
                f"p{share * 100:g} {one.measured_ms[share]:.1f} ms,"
                f" simulated {one.simulated_ms[share]:.1f} ms"
                for share in GOALS
            )
        )
    return found


def arrivals(run: Offered, settings: Settings) -> list[Arrival]:
    """Return what the run's jobs were to the batcher: when they were accepted, and how many tokens they have."""
    pairs = zip(run.records, tokens_of(settings.model, run.texts), strict=True)
    accepted = [(record.created_at.timestamp(), length) for record, length in pairs if record is not None]
    first_s = min((at_s for at_s, _ in accepted), default=0.0)
    return [Arrival(at_s=at_s - first_s, length=length) for at_s, length in accepted]


def judged(kind: str, found: Sequence[Compared], *, goals: bool) -> list[Figure]:
    """Return the figures of rounds, at least one; without ``goals`` the excess alone is what counts."""
    figures = []
    for share, goal in GOALS.items():
        where = f"{kind}, {LOAD:.0%} load, p{share * 100:g}"
        ratio = statistics.median(one.measured_ms[share] / one.simulated_ms[share] for one in found)
        name = f"{where}, measured over simulated"
        figures += [
            Figure(
                name=f"{where}, measured",
                value=statistics.median(one.measured_ms[share] for one in found),
                unit="ms",
            ),
            at_most(name, ratio, goal, "times") if goals else Figure(name=name, value=ratio, unit="times"),
            Figure(
                name=f"{where}, excess over simulated",
                value=statistics.median(one.measured_ms[share] - one.simulated_ms[share] for one in found),
                unit="ms",
            ),
        ]
    return figures
