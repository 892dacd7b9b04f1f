"""The figures of admission, part by part; a part that fails is said and the others go on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen import acceptrate, adversity, batchsubmit, overload, parts, publishcost, spike


@dataclass(frozen=True, kw_only=True)
class Effort(parts.Effort):
    """How long each part is run, in seconds a run."""

    warm_s: float
    rate_s: float
    publish_jobs: int
    # Of the length that the open loop has in full.
    spike_share: float
    spike_loads: Sequence[spike.Load] = spike.LOADS
    overload_s: float
    adversity: adversity.Effort


FULL: Final = Effort(
    rounds=5,
    warm_s=2.0,
    rate_s=6.0,
    publish_jobs=50_000,
    spike_share=1.0,
    overload_s=25.0,
    adversity=adversity.FULL,
)
QUICK: Final = Effort(
    rounds=2,
    warm_s=1.0,
    rate_s=3.0,
    publish_jobs=20_000,
    spike_share=0.3,
    overload_s=12.0,
    adversity=adversity.QUICK,
)
BRIEF: Final = Effort(
    rounds=1,
    warm_s=0.2,
    rate_s=0.5,
    publish_jobs=200,
    spike_share=1.0,
    spike_loads=(spike.Load(rate=100.0, seconds=0.5, goals_ms={}),),
    overload_s=3.0,
    adversity=adversity.BRIEF,
)
EFFORTS: Final = {"full": FULL, "quick": QUICK, "brief": BRIEF}


class Bench(parts.Bench[Effort]):
    """One run."""

    async def run(self, wanted: Sequence[str]) -> bool:
        """Run the wanted parts in the order of `PARTS`; return whether all of them could be measured."""
        return await parts.run_parts(self, PARTS, wanted, self.say)

    async def accepted(self) -> None:
        """Accepted requests a second beside a bare and a stock app."""
        found = await acceptrate.rounds(
            self.brokers,
            count=self.effort.rounds,
            seconds=self.effort.rate_s,
            warm_s=self.effort.warm_s,
            say=self.say,
        )
        for broker, runs in found.items():
            self.show(acceptrate.judged(broker, runs))

    async def publish(self) -> None:
        """A publish and its confirm, ours beside aio-pika's."""
        if "rabbitmq" not in self.brokers:
            self.say("publish is of RabbitMQ alone")
            return
        found = await publishcost.rounds(
            count=self.effort.rounds, jobs=self.effort.publish_jobs, say=self.say
        )
        self.show(publishcost.judged(found))

    async def spike(self) -> None:
        """Open loop at 2,000 and 4,000 jobs a second."""
        found = await spike.rounds(
            self.brokers,
            count=self.effort.rounds,
            share=self.effort.spike_share,
            say=self.say,
            loads=self.effort.spike_loads,
        )
        for broker, runs in found.items():
            self.show(spike.judged(broker, runs, self.effort.spike_loads))

    async def batch(self) -> None:
        """Submits of 64 at a time beside single ones."""
        found = await batchsubmit.rounds(
            self.brokers,
            count=self.effort.rounds,
            seconds=self.effort.rate_s,
            warm_s=self.effort.warm_s,
            say=self.say,
        )
        for broker, runs in found.items():
            self.show(batchsubmit.judged(broker, runs))

    async def overload(self) -> None:
        """Three times as much offered as is drained."""
        found = await overload.rounds(
            self.brokers, count=self.effort.rounds, seconds=self.effort.overload_s, say=self.say
        )
        for broker, runs in found.items():
            self.show(overload.judged(broker, runs))

    async def adversity(self) -> None:
        """Kills, aborts, a frozen broker and a full queue; once, whatever the rounds."""
        self.show(await adversity.figures(self.brokers, effort=self.effort.adversity, say=self.say))


PARTS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "accepted": Bench.accepted,
    "publish": Bench.publish,
    "spike": Bench.spike,
    "batch": Bench.batch,
    "overload": Bench.overload,
    "adversity": Bench.adversity,
}


def bench(asked: parts.Asked) -> Bench:
    """Return the run that is asked for."""
    return Bench(brokers=asked.brokers, effort=asked.effort(EFFORTS), say=asked.say, show=asked.show)
