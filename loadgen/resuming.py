"""Push under breakage: what a client that resumes misses when subscriptions, links and notifiers die in mid-stream.

The pipeline runs undisturbed; its notifier is one of our own, whose way to Redis can be cut and frozen. Jobs of two API
keys end all the while.
"""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Final

from inferq.pipeline import Pipeline
from loadgen.companion import companion
from loadgen.deployment import deployed
from loadgen.figures import Figure, equal
from loadgen.linkproxy import linked
from loadgen.lonenotifier import lone_notifier
from loadgen.parts import Say
from loadgen.resumers import Order, Resumed

MODEL: Final = "simulated:20,1"
CLIENTS: Final = 2
PATIENCE_S: Final = 30.0
SLACK_S: Final = 60.0
REDIS_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Submits a second of each client, how often each is done, and for how long the link is cut and frozen.

    ``calm_s`` lies between two disturbances. A frozen link is noticed after six seconds.
    """

    rate: float
    times: int
    cut_s: float
    frozen_s: float
    calm_s: float


async def figures(broker: str, effort: Effort, *, say: Say) -> list[Figure]:
    """Disturb in turn, and count what the clients saw."""
    keys = [secrets.token_hex(16) for _ in range(2)]
    setting = ",".join(f"client-{number}:{key}" for number, key in enumerate(keys))
    async with (
        deployed(broker, model=MODEL, api_keys=setting) as deployment,
        linked(deployment.settings.redis_url) as (link, through),
        lone_notifier(deployment.settings.redis_url, through=through, api_keys=setting) as ours,
    ):
        order = Order(
            api=deployment.url,
            url=ours.url,
            keys=keys,
            clients=CLIENTS,
            rate=effort.rate,
            patience_s=PATIENCE_S,
        )
        async with companion("loadgen.resumers", order) as clients:
            await asyncio.sleep(effort.calm_s)
            for number in range(effort.times):
                killed = await _kill_subscriptions(deployment.settings.redis_url)
                say(f"  killed {killed} subscriptions")
                await asyncio.sleep(effort.calm_s)
                await link.cut()
                say(f"  cut the notifier's link to Redis for {effort.cut_s:g} s")
                await asyncio.sleep(effort.cut_s)
                await link.mend()
                await asyncio.sleep(effort.calm_s)
                link.freeze()
                say(f"  froze the link for {effort.frozen_s:g} s")
                await asyncio.sleep(effort.frozen_s)
                await link.mend()
                await asyncio.sleep(effort.calm_s)
                await ours.restart()
                say(f"  killed the notifier and started it again ({number + 1} of {effort.times})")
                await asyncio.sleep(effort.calm_s)
            clients.tell("stop")
            seen = await clients.hear(Resumed, within_s=PATIENCE_S + SLACK_S)
    say(f"  {seen}")
    return judged(broker, seen)


def judged(broker: str, seen: Resumed) -> list[Figure]:
    """Return the figures of a run."""
    where = f"subscriptions killed, link cut and frozen, notifier killed, {broker}"
    return [
        Figure(name=f"{where}, jobs accepted", value=seen.accepted, unit="jobs"),
        Figure(name=f"{where}, connections made", value=seen.connections, unit="connections"),
        equal(f"{where}, final states missed", seen.missed, 0, "jobs"),
        equal(f"{where}, frames about another key's job", seen.wrong, 0, "frames"),
        Figure(name=f"{where}, another key's jobs asked for", value=seen.asked, unit="jobs"),
        equal(f"{where}, of them not refused", seen.undenied, 0, "jobs"),
        equal(f"{where}, other error frames", sum(seen.other_errors.values()), 0, "frames"),
    ]


async def _kill_subscriptions(redis_url: str) -> int:
    redis = Pipeline(redis_url, connect_timeout_s=REDIS_TIMEOUT_S, reply_timeout_s=REDIS_TIMEOUT_S)
    try:
        (killed,) = await redis.call_all([("CLIENT", "KILL", "TYPE", "pubsub")])
    finally:
        await redis.close()
    return int(killed)
