"""The figures of push, part by part; a part that fails is said and the others go on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen import (
    deliveries,
    hooks,
    idlesockets,
    linesubmit,
    parts,
    pushlatency,
    racing,
    resuming,
    slowclients,
)


@dataclass(frozen=True, kw_only=True)
class Effort(parts.Effort):
    """How long each part is run, in seconds a run."""

    warm_s: float
    latency_s: float
    deliveries_s: float
    idle: idlesockets.Load
    slow: slowclients.Load
    resume: resuming.Effort
    races: int
    webhooks: int
    lines: int
    spreads: Sequence[deliveries.Spread] = deliveries.SPREADS


# What the notifier may hold for a client that does not read, and beside it what a watched job costs it.
MAILBOX_MIB: Final = 2.0
FULL: Final = Effort(
    rounds=5,
    warm_s=2.0,
    latency_s=20.0,
    deliveries_s=5.0,
    idle=idlesockets.Load(idle=5_000, jobs=20_000, sockets=100),
    slow=slowclients.Load(
        deaf=300, jobs=20_000, run=6_000, per_s=100.0, healthy=20, bound_mib=300 * MAILBOX_MIB
    ),
    resume=resuming.Effort(rate=50.0, times=2, cut_s=60.0, frozen_s=15.0, calm_s=3.0),
    races=10_000,
    webhooks=1_000,
    lines=100_000,
)
QUICK: Final = Effort(
    rounds=2,
    warm_s=1.0,
    latency_s=6.0,
    deliveries_s=2.0,
    idle=idlesockets.Load(idle=2_000, jobs=20_000, sockets=100),
    slow=slowclients.Load(
        deaf=100, jobs=10_000, run=6_000, per_s=300.0, healthy=20, bound_mib=100 * MAILBOX_MIB
    ),
    resume=resuming.Effort(rate=50.0, times=1, cut_s=10.0, frozen_s=8.0, calm_s=2.0),
    races=2_000,
    webhooks=200,
    lines=10_000,
)
BRIEF: Final = Effort(
    rounds=1,
    warm_s=0.2,
    latency_s=1.0,
    deliveries_s=0.3,
    spreads=(
        deliveries.Spread(name="each job on one socket", jobs=200, shared=False, window=50),
        deliveries.Spread(name="each job on all sockets", jobs=50, shared=True, window=10),
    ),
    idle=idlesockets.Load(idle=50, jobs=200, sockets=5),
    slow=slowclients.Load(deaf=5, jobs=5_000, run=5_000, per_s=1_500.0, healthy=4, bound_mib=64.0),
    resume=resuming.Effort(rate=20.0, times=1, cut_s=1.0, frozen_s=1.0, calm_s=0.5),
    races=50,
    webhooks=20,
    lines=400,
)
EFFORTS: Final = {"full": FULL, "quick": QUICK, "brief": BRIEF}
WEBHOOKS_WITHIN_S: Final = 120.0
# Each line within so many seconds on the whole, and no run without time to begin.
A_LINE_S: Final = 0.005
LINES_SLACK_S: Final = 60.0


class Bench(parts.Bench[Effort]):
    """One run."""

    async def run(self, wanted: Sequence[str]) -> bool:
        """Run the wanted parts in the order of `PARTS`; return whether all of them could be measured."""
        return await parts.run_parts(self, PARTS, wanted, self.say)

    async def latency(self) -> None:
        """From the moment when a result is stored to its frame, at 500 results a second."""
        found = await pushlatency.rounds(
            self.brokers,
            count=self.effort.rounds,
            seconds=self.effort.latency_s,
            warm_s=self.effort.warm_s,
            say=self.say,
        )
        for broker, runs in found.items():
            self.show(pushlatency.judged(broker, runs))

    async def deliveries(self) -> None:
        """Deliveries a second beside a bare loop."""
        found = await deliveries.rounds(
            count=self.effort.rounds,
            seconds=self.effort.deliveries_s,
            warm_s=self.effort.warm_s,
            say=self.say,
            spreads=self.effort.spreads,
        )
        self.show(deliveries.judged(found))

    async def idle(self) -> None:
        """Idle sockets, and many jobs on few; once, whatever the rounds."""
        self.show(await idlesockets.figures(self.effort.idle, say=self.say))

    async def slow(self) -> None:
        """Clients that never read; once."""
        self.show(await slowclients.figures(self.effort.slow, say=self.say))

    async def resume(self) -> None:
        """Subscriptions, links and notifiers that die in mid-stream; once on each broker."""
        for broker in self.brokers:
            self.show(await resuming.figures(broker, self.effort.resume, say=self.say))

    async def race(self) -> None:
        """Jobs that end while somebody comes to wait for them; once on each broker."""
        for broker in self.brokers:
            self.show(await racing.figures(broker, times=self.effort.races, say=self.say))

    async def webhooks(self) -> None:
        """Webhooks that are refused twice; once on each broker."""
        for broker in self.brokers:
            self.show(
                await hooks.figures(
                    broker, webhooks=self.effort.webhooks, within_s=WEBHOOKS_WITHIN_S, say=self.say
                )
            )

    async def lines(self) -> None:
        """Lines through the command; once on each broker."""
        within_s = LINES_SLACK_S + self.effort.lines * A_LINE_S
        for broker in self.brokers:
            self.show(
                await linesubmit.figures(broker, lines=self.effort.lines, within_s=within_s, say=self.say)
            )


PARTS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "latency": Bench.latency,
    "deliveries": Bench.deliveries,
    "idle": Bench.idle,
    "slow": Bench.slow,
    "resume": Bench.resume,
    "race": Bench.race,
    "webhooks": Bench.webhooks,
    "lines": Bench.lines,
}


def bench(asked: parts.Asked) -> Bench:
    """Return the run that is asked for."""
    return Bench(brokers=asked.brokers, effort=asked.effort(EFFORTS), say=asked.say, show=asked.show)
