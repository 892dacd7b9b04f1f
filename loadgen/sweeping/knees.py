"""Is a knee where the server's capacity is? Whole pipelines with simulated models, whose capacity is given, are swept.

A simulated model takes exactly so long for a batch and no core, so that what a pipeline can do is what it was given,
less what its own work costs: one to two milliseconds a batch, and some more where cores are busy; so no batch is short
beside that. Nothing of the given capacity goes into the sweep: it finds its levels by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batcher.cost import Cost, capacity
from inferq.errors import OperatorError
from inferq.modelspec import parse
from loadgen.figures import Figure
from loadgen.generator.run import generated
from loadgen.parts import Say
from loadgen.reports.arms import arm
from loadgen.sweeping.sweep import Order, Sweep
from loadgen.sweeping.swept import Swept, found
from loadgen.sweeping.target import Own, own

NEAR: Final = 0.10
# Close together where the knee is to be: what is asked is where it lies, not how the curve gets there.
SHARES: Final = (0.7, 0.85, 0.95, 1.05, 1.2)
QUICK_SHARES: Final = (0.5, 1.3)
QUICK_S: Final = 2.0
QUICK_TRY_S: Final = 1.0
# A rate of a batch does not depend on its length, so neither is there a bound of tokens.
LENGTH: Final = 1


@dataclass(frozen=True, kw_only=True)
class Given:
    """A simulated server: its model and configuration, how many batches run at a time, and how long a level is (s)."""

    name: str
    model: str
    config: str
    sessions: int = 1
    seconds: float = 10.0

    @property
    def capacity(self) -> float:
        """The jobs a second that it was given."""
        spec, settings = parse(self.model), arm(self.config).settings
        cost = Cost(tau0_ms=spec.tau0_ms, row_ms=spec.alpha_ms, token_ms=0.0, token_length_ms=0.0)
        return capacity(
            cost,
            lanes=self.sessions,
            length=LENGTH,
            most_rows=settings.max_batch_size,
            most_tokens=settings.max_batch_tokens,
        )


# Batches take 70 ms or more, and a level is a hundred of them and about a thousand jobs: what its ends cut varies by
# some ten jobs, below the 2 % that the knee's rule lets go missing. Jobs one by one would need minutes a level.
SERVERS: Final = (
    Given(name="small batches", model="simulated:40,5", config="8:0", seconds=12.0),
    Given(name="runs are dear", model="simulated:60,2", config="16:0"),
    Given(name="a window", model="simulated:50,3", config="16:20"),
    Given(name="for a latency", model="simulated:40,2", config="slo"),
    Given(name="two at a time", model="simulated:60,3", config="16:0", sessions=2),
)


async def figures(*, quick: bool, say: Say, servers: Sequence[Given] = SERVERS) -> list[Figure]:
    """Sweep all servers, in the short form one of them for a moment, and return knee over given capacity."""
    found_all: list[Figure] = []
    for given in servers[1:2] if quick else servers:
        say(f"sweep of {given.name}: {given.model}, {given.config}, given {given.capacity:.1f} jobs/s")
        found_all += judged(given, await swept(given, quick=quick, say=say), goals=not quick)
    return found_all


async def swept(given: Given, *, quick: bool, say: Say) -> Swept:
    """Sweep one server on a pipeline of its own.

    Raises:
        OperatorError: it does not start, or no capacity is found.
        ConnectionError: it went away.
    """
    order = (
        Order(shares=QUICK_SHARES, seconds=QUICK_S, try_s=QUICK_TRY_S)
        if quick
        else Order(shares=SHARES, seconds=given.seconds)
    )
    async with own(Own(model=given.model, config=given.config), sessions=str(given.sessions)) as target:
        return await Sweep(target, order, generate=generated, say=say).run()


def judged(given: Given, swept: Swept, *, goals: bool) -> list[Figure]:
    """Return the figures of a sweep; without ``goals`` they are only said. A knee that was not found falls short.

    Raises:
        OperatorError: no level was overloaded.
    """
    knee = found(swept)
    name = f"sweep, {given.name}"
    if knee.saturation is None:
        raise OperatorError(f"{name}: no level was overloaded, so there is no saturation")
    ratios = [(f"{name}, saturation over given capacity", knee.saturation / given.capacity)]
    if knee.knee is not None or goals:
        over = float("nan") if knee.knee is None else knee.knee / given.capacity
        ratios.insert(0, (f"{name}, knee over given capacity", over))
    figures = [
        Figure(name=f"{name}, given capacity", value=given.capacity, unit="jobs/s"),
        *(
            near(label, ratio) if goals else Figure(name=label, value=ratio, unit="times")
            for label, ratio in ratios
        ),
        Figure(name=f"{name}, levels that break Little's law", value=len(swept.broken), unit="levels"),
    ]
    invalid = sum(bool(row.invalid) for row in swept.rows)
    return [*figures, Figure(name=f"{name}, invalid levels", value=invalid, unit="levels")]


def near(name: str, ratio: float) -> Figure:
    """Return a figure that holds within `NEAR` of 1, on either side."""
    return Figure(
        name=name,
        value=ratio,
        unit="times",
        goal=f"{1 - NEAR:g} to {1 + NEAR:g} times",
        holds=1 - NEAR <= ratio <= 1 + NEAR,
    )
