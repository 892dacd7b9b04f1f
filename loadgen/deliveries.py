"""Deliveries a second when a notifier has all it can do, beside a bare loop on the same events.

Events of the store's own shape go to a hundred sockets: each job to one of them, or to all. The bare loop is a
subscription of redis-py whose messages are sent by `websockets`; it reads no records and repairs nothing. Sides run in
turn on one Redis, each on a channel of its own, so that neither hears the other's events.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from loadgen.baselines import barepush
from loadgen.childwork import ask
from loadgen.eventflood import Flood, Flow
from loadgen.figures import Figure, at_least, equal
from loadgen.lonenotifier import lone_notifier
from loadgen.parts import Say
from loadgen.servedapp import served
from loadgen.storedjobs import stored_jobs

OURS: Final = "ours"
BARE: Final = "bare"
AWAITED: Final = "bare, send awaited"
GOAL: Final = 0.85
SOCKETS: Final = 100
SLACK_S: Final = 120.0
# A server that used less of its core was not the one that everybody waited for.
LEAST_BUSY: Final = 0.85


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Who watches: how many jobs, by one socket each or by all of them; ``window`` events may be out."""

    name: str
    jobs: int
    shared: bool
    window: int


SPREADS: Final = (
    Spread(name="each job on one socket", jobs=20_000, shared=False, window=2_000),
    # Less than one for each socket, so that nobody gets to write two at a time.
    Spread(name="each job on one socket, few on their way", jobs=20_000, shared=False, window=50),
    Spread(name="each job on all sockets", jobs=1_000, shared=True, window=200),
)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of each side, by spread and side."""

    runs: Mapping[str, Mapping[str, Flow]]


async def one_round(
    *, seconds: float, warm_s: float, turned: bool, say: Say, spreads: Sequence[Spread] = SPREADS
) -> Round:
    """Run each side once on each spread."""
    runs: dict[str, dict[str, Flow]] = {}
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(lone_notifier())
        records = await stack.enter_async_context(stored_jobs(ours.redis_url, ours.settings))
        sides = {}
        for side, by in ((BARE, barepush.BROADCAST), (AWAITED, barepush.SEND)):
            channel = f"events-{by}"
            environ = {
                barepush.REDIS_VARIABLE: ours.redis_url,
                barepush.CHANNEL_VARIABLE: channel,
                barepush.BY_VARIABLE: by,
            }
            app = await stack.enter_async_context(served("loadgen.baselines.barepush", environ))
            sides[side] = (app.url, channel, app.pid)
        sides[OURS] = (ours.url, ours.settings.names.event_channel(0), ours.pid)
        for spread in spreads:
            runs[spread.name] = {}
            jobs = await records.create(spread.jobs)
            for side in reversed(sides) if turned else sides:
                url, channel, pid = sides[side]
                order = Flood(
                    redis_url=ours.redis_url,
                    channel=channel,
                    url=url,
                    jobs=jobs,
                    sockets=SOCKETS,
                    shared=spread.shared,
                    window=spread.window,
                    seconds=seconds,
                    warm_s=warm_s,
                    pids={"server": pid},
                )
                flow = await ask("loadgen.eventflood", order, Flow, within_s=warm_s + seconds + SLACK_S)
                runs[spread.name][side] = flow
                say(f"  {spread.name}, {side}: {flow.words()}")
    return Round(runs=runs)


async def rounds(
    *, count: int, seconds: float, warm_s: float, say: Say, spreads: Sequence[Spread] = SPREADS
) -> list[Round]:
    """Run so many rounds, the order of the sides turned each time."""
    found = []
    for number in range(count):
        say(f"deliveries, round {number + 1} of {count}")
        turned = number % 2 == 1
        found.append(await one_round(seconds=seconds, warm_s=warm_s, turned=turned, say=say, spreads=spreads))
    return found


def judged(found: Sequence[Round]) -> list[Figure]:
    """Return the figures of rounds, at least one."""
    figures = []
    for spread, sides in found[0].runs.items():
        for side in sides:
            runs = [one.runs[spread][side] for one in found]
            where = f"{spread}, {side}"
            figures += [
                Figure(
                    name=f"{where}, changes", value=_median(one.per_s for one in runs), unit="deliveries/s"
                ),
                Figure(
                    name=f"{where}, ends", value=_median(one.ends_per_s for one in runs), unit="deliveries/s"
                ),
                Figure(
                    name=f"{where}, server's share of a core, least (busy from {100 * LEAST_BUSY:g} %)",
                    value=100 * min(one.share("server") for one in runs),
                    unit="%",
                ),
                equal(
                    f"{where}, lost or refused", sum(one.lost + one.errors for one in runs), 0, "deliveries"
                ),
            ]
        for bare in (BARE, AWAITED):
            pairs = [(one.runs[spread][OURS], one.runs[spread][bare]) for one in found]
            changes = _median(ours.per_s / other.per_s for ours, other in pairs)
            ends = _median(ours.ends_per_s / other.ends_per_s for ours, other in pairs)
            figures += [
                at_least(f"{spread}, changes, ours over {bare}", changes, GOAL, "times"),
                Figure(name=f"{spread}, ends, ours over {bare}", value=ends, unit="times"),
            ]
    return figures


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
