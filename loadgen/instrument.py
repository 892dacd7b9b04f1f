"""The figures of the load generator and of what it finds out, part by part; a part that fails is said, others go on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from loadgen import parts, steady
from loadgen.capacity import ingress, measuring
from loadgen.capacity.costs import encode
from loadgen.generator import selfcheck
from loadgen.sweeping import caching, knees

BUILTIN: Final = "builtin"
# Of the jobs that the built-in model is given; a full-size one takes about ten times as long for each.
FULL_SIZE_SHARE: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Effort(parts.Effort):
    """How long each part is run, in seconds a run."""

    steady_s: float
    generator_s: float
    # Whether the sweep and the cache test are in their short forms: one simulated server, a simulated model.
    short: bool = False
    ingress: ingress.Effort
    costs: measuring.Effort


FULL: Final = Effort(
    rounds=3, steady_s=steady.SECONDS, generator_s=10.0, ingress=ingress.Effort(), costs=measuring.Effort()
)
QUICK: Final = Effort(
    rounds=1,
    steady_s=10.0,
    generator_s=5.0,
    ingress=ingress.Effort(steady_s=10.0, probe_s=1.5, confirm_s=5.0),
    costs=measuring.Effort(seconds=5.0),
)
BRIEF: Final = Effort(
    rounds=1,
    steady_s=1.0,
    generator_s=1.0,
    short=True,
    ingress=ingress.Effort(rate=100.0, steady_s=0.5, probe_s=0.3, confirm_s=0.5, most=100.0),
    costs=measuring.Effort(rate=100.0, seconds=1.0, waiting=20, sockets=20, engine_jobs=50),
)
EFFORTS: Final = {"full": FULL, "quick": QUICK, "brief": BRIEF}


@dataclass(kw_only=True)
class Bench(parts.Bench[Effort]):
    """One run; ``full_size`` is the folder of a model, and ``out`` where costs are written as JSON, if they are."""

    full_size: str = ""
    out: Path | None = None

    async def run(self, wanted: Sequence[str]) -> bool:
        """Run the wanted parts in the order of `PARTS`; return whether all of them could be measured."""
        return await parts.run_parts(self, PARTS, wanted, self.say)

    async def steady(self) -> None:
        """150 jobs a second through the whole pipeline."""
        self.show(
            await steady.figures(
                list(self.brokers), rounds=self.effort.rounds, seconds=self.effort.steady_s, say=self.say
            )
        )

    async def generator(self) -> None:
        """What the generator itself can send, to a responder that does nothing."""
        self.show(
            await selfcheck.figures(rounds=self.effort.rounds, seconds=self.effort.generator_s, say=self.say)
        )

    async def ingress(self) -> None:
        """The highest rate that is accepted without a refusal."""
        found = await ingress.rounds(
            self.brokers, self.effort.ingress, count=self.effort.rounds, say=self.say
        )
        for broker, runs in found.items():
            self.show(ingress.judged(broker, runs, self.effort.ingress))

    async def sweep(self) -> None:
        """The knee of servers whose capacity is given; once, whatever the rounds."""
        self.show(await knees.figures(quick=self.effort.short, say=self.say))

    async def cache(self) -> None:
        """What a cache is worth where inputs repeat."""
        self.show(await caching.figures(quick=self.effort.short, rounds=self.effort.rounds, say=self.say))

    async def costs(self) -> None:
        """What a job costs each process."""
        jobs = self.effort.costs.engine_jobs
        models = {BUILTIN: jobs}
        if self.full_size:
            models[self.full_size] = max(1, round(jobs * FULL_SIZE_SHARE))
        found, missed = await measuring.costs(
            self.brokers, models, self.effort.costs, count=self.effort.rounds, say=self.say
        )
        self.show(measuring.figures(found, missed))
        if self.out is not None:
            self.out.write_bytes(encode(found))


PARTS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "steady": Bench.steady,
    "generator": Bench.generator,
    "ingress": Bench.ingress,
    "sweep": Bench.sweep,
    "cache": Bench.cache,
    "costs": Bench.costs,
}


def bench(asked: parts.Asked) -> Bench:
    """Return the run that is asked for; ``seconds`` is of the steady load alone."""
    effort = asked.effort(EFFORTS)
    if asked.seconds is not None:
        effort = replace(effort, steady_s=asked.seconds)
    return Bench(
        brokers=asked.brokers,
        effort=effort,
        say=asked.say,
        show=asked.show,
        full_size=asked.full_size,
        out=asked.out,
    )
