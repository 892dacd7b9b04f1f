"""Accepted requests a second: ours beside a bare app, which does nothing, and beside a stock one.

Closed loop, 256 connections, unique snippets. Ours has keys, validation and metrics on and the queue limit raised; its
batcher is frozen, so that a job costs what its acceptance costs. All is on the same cores: generator, ingress, broker
and Redis. Each round has servers of its own, since a long queue is not what is measured, and runs the sides in turn.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import msgspec

from loadgen import parts
from loadgen.baselines import stock
from loadgen.childwork import ask
from loadgen.closedloop import Closed, Rate
from loadgen.figures import Figure, at_least, equal
from loadgen.ingressload import frozen
from loadgen.servedapp import served

BARE: Final = "bare"
OURS: Final = "ours"
STOCK: Final = "stock"
OVER_BARE: Final = 0.45
AIM_OVER_BARE: Final = 0.6
OVER_STOCK: Final = 2.5
SLACK_S: Final = 60.0
# A 202 waits for two disks: with fewer the time that these take is measured, and not what a machine can do.
CONNECTIONS: Final = 256


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of each side."""

    runs: Mapping[str, Rate]

    def over(self, side: str) -> float:
        """Return how many times a side's rate ours is."""
        return self.runs[OURS].per_s / self.runs[side].per_s if self.runs[side].jobs else float("nan")


async def one_round(
    broker: str, *, seconds: float, warm_s: float, turned: bool, say: Callable[[str], None]
) -> Round:
    """Run each side once on fresh servers; the stock app, which is one of RabbitMQ, beside ours on it alone."""
    runs: dict[str, Rate] = {}
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(frozen(broker))
        bare = await stack.enter_async_context(served("loadgen.baselines.bare"))
        servers = {name: pid for name, pid in ours.pids.items() if name != "ingress"}
        sides = {
            BARE: Closed(url=bare.url, connections=CONNECTIONS, pids={BARE: bare.pid} | servers),
            OURS: Closed(url=ours.url, connections=CONNECTIONS, key=ours.key, pids=ours.pids),
        }
        if broker == "rabbitmq":
            settings = ours.deployment.settings
            environ = {stock.REDIS_VARIABLE: settings.redis_url, stock.BROKER_VARIABLE: settings.broker_url}
            app = await stack.enter_async_context(served("loadgen.baselines.stock", environ))
            sides[STOCK] = Closed(url=app.url, connections=CONNECTIONS, pids={STOCK: app.pid} | servers)
        for side in reversed(sides) if turned else sides:
            order = msgspec.structs.replace(sides[side], seconds=seconds, warm_s=warm_s)
            runs[side] = await ask("loadgen.closedloop", order, Rate, within_s=warm_s + seconds + SLACK_S)
            say(f"  {broker}, {side}: {runs[side].words()}")
    return Round(runs=runs)


async def rounds(
    brokers: Sequence[str], *, count: int, seconds: float, warm_s: float, say: Callable[[str], None]
) -> dict[str, list[Round]]:
    """Run each broker ``count`` times, in turn."""
    return await parts.rounds(
        "accepted requests", one_round, brokers, count=count, seconds=seconds, warm_s=warm_s, say=say
    )


def judged(broker: str, found: Sequence[Round]) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    where = f"accepted, {broker}"
    sides = list(found[0].runs)
    figures = [
        Figure(
            name=f"{where}, {side}",
            value=statistics.median(one.runs[side].per_s for one in found),
            unit="requests/s",
        )
        for side in sides
    ]
    over_bare = statistics.median(one.over(BARE) for one in found)
    figures.append(
        at_least(f"{where}, ours over bare (aim {AIM_OVER_BARE:g})", over_bare, OVER_BARE, "times")
    )
    if STOCK in sides:
        over_stock = statistics.median(one.over(STOCK) for one in found)
        figures.append(at_least(f"{where}, ours over stock", over_stock, OVER_STOCK, "times"))
    refused = sum(sum(run.refused.values()) for one in found for run in one.runs.values())
    figures.append(equal(f"{where}, other answers than 2xx", refused, 0, "requests"))
    for side in sides:
        runs = [one.runs[side] for one in found]
        for process in runs[0].cpu_s:
            name = f"{where}, {side}, CPU of {process} for a request"
            figures.append(
                Figure(name=name, value=statistics.median(run.cpu_us(process) for run in runs), unit="us")
            )
        shares = {
            "generator's": max(run.own_share for run in runs),
            "others'": max(run.others_cpu_s / run.seconds for run in runs),
        }
        figures += [
            Figure(name=f"{where}, {side}, {whose} share of a core, most", value=100 * share, unit="%")
            for whose, share in shares.items()
        ]
    return figures
