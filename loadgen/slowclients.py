"""Clients that never read, and what they do to others: 300 of them, each watching all of 20,000 jobs.

Three runs, each on a notifier of its own: healthy clients alone; beside such as know the records already, so that it
is the changes that pile up; and beside such as ask for every record, which is more than they are ever sent. Jobs start
and finish at a steady rate all the while.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq.background import end, spawn
from loadgen import deafsockets
from loadgen.companion import Companion, companion
from loadgen.deafsockets import Deaf, State
from loadgen.figures import Figure, at_most, equal, percentile
from loadgen.lonenotifier import LoneNotifier, lone_notifier
from loadgen.parts import Say
from loadgen.storedjobs import stored_jobs
from loadgen.watchers import Count, Tell, Watch

ALONE: Final = "alone"
CHANGES: Final = "beside clients that know the records"
SNAPSHOTS: Final = "beside clients that ask for the records"
ARMS: Final = (ALONE, CHANGES, SNAPSHOTS)
TIMES: Final = 1.5
WITHIN_S: Final = 300.0
# Longer than a client may take nothing.
CLOSED_WITHIN_S: Final = 30.0
LOOK_S: Final = 0.2
EVERY_S: Final = 1.0
# A new record's.
FIRST_SEQ: Final = 1
TOO_SLOW: Final = "inferq_sockets_closed_total{4008}"


@dataclass(frozen=True, kw_only=True)
class Load:
    """``jobs`` are watched by each deaf client; of them ``run`` are run, ``per_s`` a second, and watched by others.

    ``bound_mib`` is what the notifier may grow by, as its documentation has it for so many clients.
    """

    deaf: int
    jobs: int
    run: int
    per_s: float
    healthy: int
    bound_mib: float


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One run: how old results were when they came (ms, sorted), memory in MiB, and the ends of deaf clients."""

    ages_ms: Sequence[float]
    missed: int
    before_mib: float
    peak_mib: float
    system_mib: float
    too_slow: int
    subscribed_s: float
    ended: int

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the ages."""
        return percentile(self.ages_ms, 0.99)


async def figures(load: Load, *, say: Say) -> list[Figure]:
    """Run the three arms and compare."""
    arms = {}
    for name in ARMS:
        arms[name] = await one_arm(name, load)
        say(
            f"  {name}: p99 {arms[name].p99_ms:.2f} ms, peak {arms[name].peak_mib:.0f} MiB, {_words(arms[name])}"
        )
    return judged(arms, load)


async def one_arm(name: str, load: Load) -> Arm:
    """Run one arm; raises as its processes do."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(lone_notifier())
        records = await stack.enter_async_context(stored_jobs(ours.redis_url, ours.settings))
        jobs = await records.create(load.jobs)
        run = jobs[: load.run]
        order = Watch(url=ours.url, sockets=load.healthy, jobs=run)
        healthy = await stack.enter_async_context(companion("loadgen.watchers", order))
        await healthy.hear(Count, within_s=WITHIN_S)
        healthy.tell(Tell(do="subscribe", within_s=WITHIN_S))
        await healthy.hear(Count, within_s=WITHIN_S)
        before_mib = _peak_mib(ours)
        deaf: Companion | None = None
        state: State | None = None
        if name != ALONE:
            after = FIRST_SEQ if name == CHANGES else None
            asked = Deaf(url=ours.url, clients=load.deaf, jobs=jobs, after=after)
            deaf = await stack.enter_async_context(companion("loadgen.deafsockets", asked))
            await deaf.hear(State, within_s=WITHIN_S)
            deaf.tell(deafsockets.Tell(do="subscribe", within_s=WITHIN_S))
            # Who asks for the records does so while jobs run: what they are sent never comes to an end.
            state = await deaf.hear(State, within_s=2 * WITHIN_S) if name == CHANGES else None
        unsent = _Unsent(ours.child.port)
        looking = spawn(unsent.look(), "unsent")
        stack.push_async_callback(end, looking)
        await records.run(run, per_s=load.per_s)
        healthy.tell(Tell(do="await", finals=load.run, within_s=WITHIN_S))
        count = await healthy.hear(Count, within_s=2 * WITHIN_S)
        healthy.tell(Tell(do="ages"))
        ages = await healthy.hear(list[float], within_s=WITHIN_S)
        too_slow = ended = 0
        subscribed_s = 0.0
        if deaf is not None:
            too_slow = await _too_slow(ours, load.deaf)
            if state is None:
                state = await deaf.hear(State, within_s=2 * WITHIN_S)
            subscribed_s = state.seconds
            deaf.tell(deafsockets.Tell(do="drain", within_s=CLOSED_WITHIN_S))
            ended = (await deaf.hear(State, within_s=WITHIN_S)).closed
        return Arm(
            ages_ms=sorted(ages),
            missed=load.run - count.finals,
            before_mib=before_mib,
            peak_mib=_peak_mib(ours),
            system_mib=unsent.most_mib,
            too_slow=too_slow,
            subscribed_s=subscribed_s,
            ended=ended,
        )


async def _too_slow(ours: LoneNotifier, wanted: int) -> int:
    """Return how many clients were closed as too slow, once it is all or the time is over."""
    over_s = time.monotonic() + CLOSED_WITHIN_S
    while True:
        closed = int((await ours.metrics()).get(TOO_SLOW, 0))
        if closed >= wanted or time.monotonic() > over_s:
            return closed
        await asyncio.sleep(LOOK_S)


def judged(arms: dict[str, Arm], load: Load) -> list[Figure]:
    """Return the figures of the arms."""
    alone = arms[ALONE]
    found = [
        Figure(name=f"{load.healthy} healthy clients alone, p99", value=alone.p99_ms, unit="ms"),
        equal("healthy clients alone, final states missed", alone.missed, 0, "jobs"),
    ]
    for name in ARMS[1:]:
        arm = arms[name]
        where = f"healthy clients {name} and never read"
        found += [
            Figure(name=f"{where}, p99", value=arm.p99_ms, unit="ms"),
            at_most(f"{where}, p99 over alone", arm.p99_ms / alone.p99_ms, TIMES, "times"),
            equal(f"{where}, final states missed", arm.missed, 0, "jobs"),
            Figure(
                name=f"{where}, most that the system holds for all clients", value=arm.system_mib, unit="MiB"
            ),
            equal(f"{where}, closed with 4008", arm.too_slow, load.deaf, "clients"),
            equal(
                f"{where}, whose connection is found ended when they read after all",
                arm.ended,
                load.deaf,
                "clients",
            ),
            at_most(
                f"{where}, growth of the notifier to its peak (RSS)",
                arm.peak_mib - arm.before_mib,
                load.bound_mib,
                "MiB",
            ),
        ]
    changes = arms[CHANGES]
    found.append(
        Figure(
            name=f"{load.deaf} clients that know {load.jobs} records, subscribed after",
            value=changes.subscribed_s,
            unit="s",
        )
    )
    return found


class _Unsent:
    """The most bytes that the system has held for the clients of a port, sent and not taken, looked at now and then."""

    def __init__(self, port: int) -> None:
        self._port, self.most_mib = port, 0.0

    async def look(self) -> None:
        """Look for ever; cancel to end."""
        while True:
            held = await asyncio.to_thread(self._held)
            self.most_mib = max(self.most_mib, held / 2**20)
            await asyncio.sleep(EVERY_S)

    def _held(self) -> int:
        held = 0
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, queues = (line.split()[column] for column in (1, 4))
            if int(local.partition(":")[2], 16) == self._port:
                held += int(queues.partition(":")[0], 16)
        return held


def _words(arm: Arm) -> str:
    return f"{arm.too_slow} closed with 4008, {arm.missed} missed, subscribed in {arm.subscribed_s:.1f} s"


def _peak_mib(ours: LoneNotifier) -> float:
    """Return the most memory (RSS) that the notifier has had since its start."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{ours.pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else float("nan")
