"""What a notifier bears: thousands of sockets that wait for nothing, and 20,000 watched jobs on a hundred of them."""

from dataclasses import dataclass
from typing import Final

import psutil

from loadgen.companion import Companion, companion
from loadgen.figures import Figure, at_most, equal
from loadgen.lonenotifier import LoneNotifier, lone_notifier
from loadgen.parts import Say
from loadgen.storedjobs import stored_jobs
from loadgen.watchers import Count, Tell, Watch

MOST_KIB: Final = 20.0
WITHIN_S: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """How many sockets idle; how many jobs are watched on how many sockets."""

    idle: int
    jobs: int
    sockets: int


@dataclass(frozen=True, kw_only=True)
class Held:
    """Memory (PSS) of the notifier in KiB, for each socket beyond the first and in all; how many stayed open."""

    each_kib: float
    all_kib: float
    open: int


async def figures(load: Load, *, say: Say) -> list[Figure]:
    """Measure both, each on a notifier of its own."""
    return [*await _idle(load, say), *await _watched(load, say)]


async def held(sockets: int, *, say: Say) -> Held:
    """Open so many sockets that wait for nothing, and look at the notifier's memory with the first and with all."""
    async with (
        lone_notifier() as ours,
        companion("loadgen.watchers", Watch(url=ours.url, sockets=1)) as first,
    ):
        await first.hear(Count, within_s=WITHIN_S)
        one_kib = _memory_kib(ours)
        async with companion("loadgen.watchers", Watch(url=ours.url, sockets=sockets - 1)) as others:
            await others.hear(Count, within_s=WITHIN_S)
            all_kib = _memory_kib(ours)
            counted = await _asked(others, Tell(do="await"))
    say(f"  {sockets} idle sockets: {one_kib:.0f} KiB with the first, {all_kib:.0f} KiB with all")
    return Held(each_kib=(all_kib - one_kib) / (sockets - 1), all_kib=all_kib, open=counted.open + 1)


async def _idle(load: Load, say: Say) -> list[Figure]:
    found = await held(load.idle, say=say)
    where = f"{load.idle} idle sockets"
    return [
        at_most(f"{where}, memory (PSS) of each beyond the first", found.each_kib, MOST_KIB, "KiB"),
        Figure(name=f"{where}, memory (PSS) of the notifier", value=found.all_kib / 1024, unit="MiB"),
        equal(f"{where}, open in the end", found.open, load.idle, "sockets"),
    ]


async def _watched(load: Load, say: Say) -> list[Figure]:
    async with lone_notifier() as ours, stored_jobs(ours.redis_url, ours.settings) as records:
        jobs = await records.create(load.jobs)
        order = Watch(url=ours.url, sockets=load.sockets, jobs=jobs)
        async with companion("loadgen.watchers", order) as watchers:
            await watchers.hear(Count, within_s=WITHIN_S)
            shown = await _asked(watchers, Tell(do="subscribe", within_s=WITHIN_S))
            await records.start(jobs)
            await records.finish(jobs)
            ended = await _asked(watchers, Tell(do="await", finals=load.jobs, within_s=WITHIN_S))
    say(f"  {load.jobs} jobs on {load.sockets} sockets: {ended}")
    where = f"{load.jobs} jobs on {load.sockets} sockets, a message each"
    return [
        equal(f"{where}, shown at the start", shown.snapshots, load.jobs, "jobs"),
        equal(f"{where}, final states missed", load.jobs - ended.finals, 0, "jobs"),
        equal(f"{where}, sockets lost", load.sockets - ended.open, 0, "sockets"),
    ]


async def _asked(one: Companion, tell: Tell) -> Count:
    one.tell(tell)
    return await one.hear(Count, within_s=tell.within_s + WITHIN_S)


def _memory_kib(ours: LoneNotifier) -> float:
    return float(psutil.Process(ours.pid).memory_full_info().pss / 1024)
