"""The figures of batching, part by part; a part that fails is said and the others go on.

In full it takes about 40 minutes on two cores, `QUICK` about 10, and each part can be run alone. Figures that need the
full-size model are left out without its folder. What one part measures and another needs, the capacity at saturation
and the time of one job, is measured once.
"""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from loadgen import (
    endurance,
    goodput,
    hashrouting,
    jobcost,
    lightload,
    lookup,
    parts,
    poison,
    prediction,
    saturation,
)
from loadgen.bareloops import ALONE

FULL_SIZE: Final = "full-size"
BUILTIN: Final = "builtin"
MAKE_ONE: Final = (
    "figures of the full-size model are left out: make one with"
    " `inferq model random TARGET` and name it with --full-size TARGET"
)


@dataclass(frozen=True, kw_only=True)
class Effort(parts.Effort):
    """How long each part is run, in seconds a run."""

    saturation_s: float
    prediction_s: float
    light_s: float
    goodput_s: float
    cost_jobs: int
    endurance_batches: int
    endurance_s: float
    routed_requests: int
    lookups: int = lookup.LOOKUPS
    # Runs at saturation before one is taken as it is.
    tries: int = saturation.TRIES
    # Without, it is taken to be what one by one on all threads comes to.
    measured_capacity: bool = True
    goodput_loads: Sequence[float] = goodput.LOADS
    goodput_policies: Sequence[str] = tuple(goodput.POLICIES)
    faults: Sequence[str] = tuple(poison.FAULTS)
    sampled_s: int = jobcost.SAMPLED_S


FULL: Final = Effort(
    rounds=3,
    saturation_s=15.0,
    prediction_s=30.0,
    light_s=12.0,
    goodput_s=5.0,
    cost_jobs=12_000,
    endurance_batches=endurance.BATCHES,
    endurance_s=480.0,
    routed_requests=30_000,
)
QUICK: Final = Effort(
    rounds=1,
    saturation_s=6.0,
    prediction_s=12.0,
    light_s=6.0,
    goodput_s=4.0,
    cost_jobs=10_000,
    endurance_batches=2_000,
    endurance_s=60.0,
    routed_requests=10_000,
)
BRIEF: Final = Effort(
    rounds=1,
    saturation_s=1.5,
    prediction_s=1.0,
    light_s=1.0,
    goodput_s=1.0,
    cost_jobs=500,
    endurance_batches=100,
    endurance_s=60.0,
    routed_requests=1_000,
    lookups=1_000,
    tries=1,
    measured_capacity=False,
    goodput_loads=(0.3,),
    goodput_policies=(goodput.SLO, "greedy"),
    faults=("crash",),
    sampled_s=1,
)
EFFORTS: Final = {"full": FULL, "quick": QUICK, "brief": BRIEF}


@dataclass(kw_only=True)
class Bench(parts.Bench[Effort]):
    """One run: ``models`` by kind."""

    models: dict[str, str]
    _capacities: dict[str, float] = field(default_factory=dict)
    _one_job_ms: dict[str, float] = field(default_factory=dict)

    async def run(self, wanted: Sequence[str]) -> bool:
        """Run the wanted parts in the order of `PARTS`; return whether all of them could be measured."""
        return await parts.run_parts(self, PARTS, wanted, self.say)

    async def saturation(self) -> None:
        """Throughput beside bare loops, and padding."""
        for kind, model in self.models.items():
            found = await saturation.rounds(
                model,
                self.brokers,
                count=self.effort.rounds,
                seconds=self.effort.saturation_s,
                say=self.say,
                tries=self.effort.tries,
            )
            self._capacities[kind] = statistics.median(one.runs["streams"].done_per_s for one in found)
            self._one_job_ms[kind] = statistics.median(saturation.one_job_ms(one.bare) for one in found)
            self.show(saturation.judged(kind, found))

    async def prediction(self) -> None:
        """Measured over simulated times at 70 % load."""
        for kind, model in self.models.items():
            found = await prediction.rounds(
                model,
                capacity=await self._capacity(kind),
                count=self.effort.rounds,
                seconds=self.effort.prediction_s,
                say=self.say,
            )
            self.show(prediction.judged(kind, found, goals=kind == FULL_SIZE))

    async def goodput(self) -> None:
        """Jobs in time by policy and load; the full-size model's, else the built-in's."""
        kind = next(iter(self.models))
        capacity = await self._capacity(kind)
        found = await goodput.rounds(
            self.models[kind],
            capacity=capacity,
            one_job_ms=await self._alone_ms(kind),
            count=self.effort.rounds,
            seconds=self.effort.goodput_s,
            say=self.say,
            loads=self.effort.goodput_loads,
            policies=self.effort.goodput_policies,
        )
        self.show(goodput.judged(kind, found, capacity=capacity))

    async def light(self) -> None:
        """The median at 30 % load beside one by one."""
        for kind, model in self.models.items():
            found = await lightload.rounds(
                model,
                capacity=await self._capacity(kind),
                count=self.effort.rounds,
                seconds=self.effort.light_s,
                say=self.say,
            )
            self.show(lightload.judged(kind, found))

    async def poison(self) -> None:
        """One poison among 64."""
        for broker, found in (
            await poison.all_poisoned(self.brokers, self.effort.faults, say=self.say)
        ).items():
            self.show(poison.judged(broker, found))

    async def cost(self) -> None:
        """The batcher's own CPU for a job."""
        found = await jobcost.rounds(
            self.brokers,
            count=self.effort.rounds,
            jobs=self.effort.cost_jobs,
            say=self.say,
            sampled_s=self.effort.sampled_s,
        )
        for broker, runs in found.items():
            self.show(jobcost.judged(broker, runs))

    async def endurance(self) -> None:
        """Memory over random shapes, with the built-in model."""
        model = self.models[BUILTIN]
        found = await endurance.endured(
            model, batches=self.effort.endurance_batches, most_s=self.effort.endurance_s, say=self.say
        )
        self.show(endurance.judged(BUILTIN, found))

    async def lookup(self) -> None:
        """A cached answer's look-up."""
        self.show(lookup.judged(lookup.measured(self.effort.lookups)))

    async def routing(self) -> None:
        """Hash routing: what is computed and kept, and what a kill moves."""
        for broker in self.brokers:
            found = await hashrouting.measured(broker, requests=self.effort.routed_requests, say=self.say)
            self.show(hashrouting.judged(broker, found))

    async def _capacity(self, kind: str) -> float:
        """Return the jobs a second that `slo` does at saturation."""
        if kind not in self._capacities and not self.effort.measured_capacity:
            self._capacities[kind] = 1000 / await self._alone_ms(kind)
        if kind not in self._capacities:
            self.say(f"{kind}: capacity")
            found = await saturation.saturating(
                "streams",
                self.models[kind],
                self.effort.tries,
                # One by one on all threads is about what a pipeline does at least.
                expected=1000 / await self._alone_ms(kind),
                seconds=self.effort.saturation_s,
                say=self.say,
            )
            self._capacities[kind] = found.done_per_s
        return self._capacities[kind]

    async def _alone_ms(self, kind: str) -> float:
        """Return the engine's time for one job on all threads."""
        if kind not in self._one_job_ms:
            loops = await saturation.bare(
                self.models[kind], seconds=self.effort.saturation_s / 3, loops=(ALONE,)
            )
            self._one_job_ms[kind] = saturation.one_job_ms(loops)
        return self._one_job_ms[kind]


PARTS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "saturation": Bench.saturation,
    "prediction": Bench.prediction,
    "goodput": Bench.goodput,
    "light": Bench.light,
    "poison": Bench.poison,
    "cost": Bench.cost,
    "endurance": Bench.endurance,
    "lookup": Bench.lookup,
    "routing": Bench.routing,
}


def models(full_size: str | None) -> dict[str, str]:
    """Return the models to measure by kind, the full-size one first where there is one."""
    return ({FULL_SIZE: full_size} if full_size else {}) | {BUILTIN: "builtin"}


def bench(asked: parts.Asked) -> Bench:
    """Return the run that is asked for."""
    if not asked.full_size:
        asked.say(MAKE_ONE)
    return Bench(
        models=models(asked.full_size),
        brokers=asked.brokers,
        effort=asked.effort(EFFORTS),
        say=asked.say,
        show=asked.show,
    )
