"""Waits for the ends of jobs: `GET /v1/jobs/{id}?wait=N`, and `POST /v1/infer` with `Prefer: wait=N`.

Who waits holds no place among the submits under way, and no deadline of a submit runs. A wait that cannot be had, or is
cut short, is no error: the client gets at once what it would have got without one.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.types import Receive

from inferq.apikeys import Caller
from inferq.breaker import State
from inferq.circuit import Circuit
from inferq.errors import JobNotFound, Unavailable
from inferq.feed import Feed
from inferq.follower import Follower
from inferq.httplimits import HttpLimits
from inferq.jobs import FINAL
from inferq.telemetry import Metrics
from ingress.followers import Followers, NoPlace, most_followers

OUTCOMES: Final = ("ended", "passed", "crowded", "left", "stopped", "gone", "unavailable")


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """How a wait came out; ``record`` is the final one as JSON where the job has ended."""

    outcome: str
    record: bytes | None = None

    @property
    def applied(self) -> bool:
        """Whether it was waited as long as was asked."""
        return self.outcome in ("ended", "passed")


class Waits:
    """Waits for ``feed``'s jobs, ``most`` at a time, unless the ``circuit`` to Redis is open."""

    def __init__(self, feed: Feed, metrics: Metrics, circuit: Circuit, *, most: int | None = None) -> None:
        self._circuit = circuit
        waiting = metrics.gauge("waiting", "Requests that wait for the end of a job")
        most = most_followers(HttpLimits()) if most is None else most
        self._followers = Followers(feed, most=most, count=waiting.set)
        outcomes = metrics.counter(
            "waits", "Requests that waited for the end of a job, by outcome", "outcome"
        )
        self._outcomes = {outcome: outcomes.labels(outcome) for outcome in OUTCOMES}

    async def final_record(self, caller: Caller, job_id: str, within_s: float, receive: Receive) -> Waited:
        """Wait for the end of a job for so many seconds, and as long as its client is there."""
        waited = await self._wait(caller, job_id, within_s, receive)
        self._outcomes[waited.outcome].inc()
        return waited

    def close(self) -> None:
        """End all waits: the process stops."""
        self._followers.close()

    async def _wait(self, caller: Caller, job_id: str, within_s: float, receive: Receive) -> Waited:
        if self._circuit.state is State.OPEN:
            return Waited(outcome="unavailable")
        try:
            async with self._followers.following(job_id, receive) as follower:
                return await _ended(follower, caller, within_s)
        except NoPlace:
            return Waited(outcome="stopped" if self._followers.closed else "crowded")


async def _ended(follower: Follower, caller: Caller, within_s: float) -> Waited:
    try:
        async with asyncio.timeout(within_s):
            event = await follower.begin(caller)
            if event.status in FINAL:
                return Waited(outcome="ended", record=event.record)
            end = await follower.final()
    except TimeoutError:
        return Waited(outcome="passed")
    except Unavailable:
        return Waited(outcome="unavailable")
    except JobNotFound:
        return Waited(outcome="gone")
    if end is not None:
        return Waited(outcome="ended", record=end.record)
    return Waited(outcome="left" if follower.left else "stopped" if follower.stopped else "gone")
