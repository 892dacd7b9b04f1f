"""What one ingress accepts without a single refusal: 2,000 jobs a second for half a minute, and the highest rate.

Open loop, keys on, the queue limit raised, the batcher frozen. Brief probes find the highest rate, and a longer run
confirms it. Each run has servers of its own, since a long queue is not what is measured. A rate holds when every
request had its 202 and the generator kept to its schedule.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.errors import first_line
from loadgen import spike
from loadgen.capacity.ratesearch import Probe, RateSearch, Verdict
from loadgen.figures import Figure
from loadgen.spike import Load
from loadgen.timedload import ACCEPTED, Seen

STEADY: Final = spike.LOADS[0]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long each run is, in seconds, and where the search begins and ends, in jobs a second.

    ``share`` is of the length that the steady load has in full.
    """

    steady: Load = STEADY
    share: float = 1.0
    probe_s: float = 3.0
    confirm_s: float = 15.0
    first: float = STEADY.rate
    most: float = 32_000.0


@dataclass(frozen=True, kw_only=True)
class Highest:
    """One round: the steady load, and the run at the highest rate; None where no rate held.

    ``generator_limited`` says that the next higher rate was too much for the generator, not for the ingress.
    """

    steady: Seen
    best: Seen | None
    generator_limited: bool

    @property
    def per_s(self) -> float:
        """Return the highest rate at which everything was accepted, 0 for none."""
        return self.best.rate if self.best else 0.0


async def one_round(broker: str, effort: Effort, *, say: Callable[[str], None]) -> Highest:
    """Run the steady load, then search."""
    (steady,) = await spike.one_round(broker, [effort.steady], share=effort.share, say=say)
    search = RateSearch(first=effort.first, most=effort.most)
    best = None
    while (probe := search.next) is not None:
        seen = await _probed(broker, probe, effort, say)
        search.tell(verdict(seen) if seen else Verdict.FAILED)
        if search.confirmed:
            best = seen
    return Highest(steady=steady, best=best, generator_limited=search.generator_limited)


def verdict(seen: Seen) -> Verdict:
    """Judge a probe: refusals count whatever the generator did, since a late one offers less, not more."""
    if seen.count(ACCEPTED) < len(seen.statuses):
        return Verdict.FAILED
    return Verdict.HELD if seen.valid else Verdict.INVALID


async def rounds(
    brokers: Sequence[str], effort: Effort, *, count: int, say: Callable[[str], None]
) -> dict[str, list[Highest]]:
    """Search on each broker ``count`` times, in turn."""
    found: dict[str, list[Highest]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            say(f"ingress, round {number + 1} of {count}: {broker}")
            found[broker].append(one := await one_round(broker, effort, say=say))
            say(f"  {broker}: all accepted up to {one.per_s:.0f}/s")
    return found


def judged(broker: str, found: Sequence[Highest], effort: Effort) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    figures = spike.judged(broker, [[one.steady] for one in found], [effort.steady])
    where = f"highest rate all accepted, {broker}"
    limited = sum(one.generator_limited for one in found)
    figures.append(
        Figure(
            name=f"{where}, {effort.confirm_s:g} s, the generator's limit in {limited} of {len(found)} rounds",
            value=statistics.median(one.per_s for one in found),
            unit="jobs/s",
        )
    )
    best = [one.best for one in found if one.best is not None]
    if not best:
        return figures
    figures += [
        Figure(
            name=f"{where}, due to 202, {name}",
            value=statistics.median(run.wait_ms(share) for run in best),
            unit="ms",
        )
        for name, share in spike.SHARES.items()
    ]
    used = {name: [run.cpu_s[name] for run in best] for name in best[0].cpu_s}
    used |= {"generator": [run.own_cpu_s for run in best], "others": [run.others_cpu_s for run in best]}
    figures += [
        Figure(
            name=f"{where}, share of a core, {name}",
            value=statistics.median(
                100 * cpu_s / run.seconds for cpu_s, run in zip(seconds, best, strict=True)
            ),
            unit="%",
        )
        for name, seconds in used.items()
    ]
    return figures


async def _probed(broker: str, probe: Probe, effort: Effort, say: Callable[[str], None]) -> Seen | None:
    """Return what came of a probe; None where the ingress ended connections, as it does with those far behind."""
    seconds = effort.confirm_s if probe.confirming else effort.probe_s
    load = Load(rate=probe.rate, seconds=seconds, goals_ms={})
    try:
        (seen,) = await spike.one_round(broker, [load], share=1.0, say=say)
    except ConnectionError as error:
        say(f"  {broker}, {probe.rate:g}/s: {first_line(error)}")
        return None
    return seen
