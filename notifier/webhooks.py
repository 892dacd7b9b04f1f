"""Sends webhooks: claims what is due, tries each once, and settles it. Several senders share the work.

A claim is a lease. A sender that dies in a try leaves it to lapse, and another takes it up: a receiver may get the same
event again, never none. Whoever makes a webhook due says so on a channel, so that it goes out at once; that is only a
hint, and a look each second finds whatever else there is.
"""

import asyncio
import os
import random
from dataclasses import dataclass
from typing import Final

import structlog

from inferq.backoff import Backoff
from inferq.errors import Unavailable
from inferq.telemetry import Metrics
from inferq.webhooks.outbox import Claimed, Due, Outbox
from inferq.webhooks.signing import secret_of, signed
from notifier.webhookplan import Decision, Outcome, Tried, decide
from notifier.webhookpost import TRY_S, Poster
from notifier.webhookshares import Shares

LOOK_S: Final = 1.0
GRACE_S: Final = 2.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many tries there are at a time, and how long one is this sender's own: longer than it takes to settle.

    An owner who is alone has half of them: the other half is for whoever comes.
    """

    most: int = 128
    of_host: int = 8
    of_silent: int = 2
    lease_s: float = TRY_S + 5.0


class Sender:
    """Delivers the webhooks of an outbox; ``secret`` is the deployment's, ``first_wait_ms`` follows a first failure."""

    def __init__(
        self,
        outbox: Outbox,
        poster: Poster,
        metrics: Metrics,
        *,
        secret: str,
        first_wait_ms: int,
        limits: Limits | None = None,
    ) -> None:
        self._outbox, self._poster = outbox, poster
        self._secret, self._first_wait_ms = secret, first_wait_ms
        limits = limits or Limits()
        self._lease_s = limits.lease_s
        self._shares = Shares(most=limits.most, of_host=limits.of_host, of_silent=limits.of_silent)
        self._tries: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._left = False
        self.stopping = False
        self._clock_ms = 0.0
        self._attempts = metrics.counter("webhook_attempts", "Tries of webhooks by outcome", "outcome")
        self._seconds = metrics.seconds("webhook", "How long a try of a webhook takes")
        self._pending = metrics.common_gauge("webhooks_pending", "Webhooks that are not delivered yet")
        self._failed = metrics.common_gauge(
            "webhooks_failed", "Webhooks that were given up, as far as they are kept"
        )
        self._lost = metrics.counter(
            "webhook_claims_lost", "Tries whose outcome came when another had the webhook"
        )

    @property
    def under_way(self) -> int:
        """How many tries are under way."""
        return len(self._tries)

    def wake(self, _: bytes = b"") -> None:
        """Something may be due."""
        self._woken.set()

    async def run(self) -> None:
        """Send for ever; cancel to end, after `stop`."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as group:
            while not self.stopping:
                self._woken.clear()
                wait_s = LOOK_S
                if self._shares.room > 0:
                    try:
                        claimed = await self._claim(group)
                    except Unavailable as error:
                        _log.debug("webhooks.unclaimed", error=str(error))
                        wait_s = backoff.next_s()
                    else:
                        backoff.reset()
                        self._left = claimed.left
                        if claimed.next_ms is not None:
                            wait_s = min(wait_s, claimed.next_ms / 1000)
                        elif claimed.left and not self._tries:
                            # Only what has outlived its time was found, and more of it may stand before what has not.
                            wait_s = 0
                else:
                    self._left = True
                await self._rest(wait_s)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Claim no more, and give what is under way a little time; what is not done by then is another's."""
        self.stopping = True
        self.wake()
        if self._tries:
            await asyncio.wait(self._tries, timeout=grace_s)

    async def _rest(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _claim(self, group: asyncio.TaskGroup) -> Claimed:
        claim = os.urandom(8).hex()
        claimed = await self._outbox.claim(
            claim,
            lease_ms=round(self._lease_s * 1000),
            most=self._shares.room,
            share=self._shares.of_host,
            free=self._shares.free(),
            under_way=self._shares.owners(),
        )
        loop = asyncio.get_running_loop()
        self._clock_ms = claimed.now_ms - loop.time() * 1000
        self._pending.set(claimed.pending)
        self._failed.set(claimed.failed)
        until_s = loop.time() + self._lease_s
        for due in claimed.due:
            self._shares.begin(due.owner, due.host)
            task = group.create_task(self._one(due, claim, until_s), name="webhook")
            self._tries.add(task)
            task.add_done_callback(self._tries.discard)
        return claimed

    async def _one(self, due: Due, claim: str, until_s: float) -> None:
        tried = Tried(outcome=Outcome.INTERNAL)
        try:
            tried = await self._try(due)
        except Exception as error:
            # A fault of ours in one webhook; the others are still to be sent.
            _log.error("webhooks.fault", job_id=due.job_id, exc_info=error)
        finally:
            self._shares.end(due.owner, due.host, answered=tried.answered)
            if self._left:
                self.wake()
        decision = decide(
            tried,
            tries=due.tries + 1,
            since_ms=due.since_ms,
            now_ms=self._now_ms(),
            first_wait_ms=self._first_wait_ms,
            spread=random.random(),
        )
        await self._settle(due, claim, until_s, tried, decision)

    async def _try(self, due: Due) -> Tried:
        loop = asyncio.get_running_loop()
        headers = signed(
            secret_of(self._secret, due.owner), webhook_id=due.webhook_id, at_ms=self._now_ms(), body=due.body
        )
        begun_s = loop.time()
        tried = await self._poster.post(due.url, headers, due.body)
        self._seconds.observe(loop.time() - begun_s)
        return tried

    async def _settle(self, due: Due, claim: str, until_s: float, tried: Tried, decision: Decision) -> None:
        """Write down what a try came to, for as long as it is ours; after that it is another's, and sent again."""
        self._attempts.labels(tried.outcome).inc()
        backoff = Backoff()
        while True:
            try:
                mine = await self._outbox.settle(
                    due,
                    claim,
                    decision.state,
                    due_ms=decision.due_ms,
                    last_status=tried.status,
                    last_error=None if tried.outcome is Outcome.DELIVERED else tried.outcome,
                )
                break
            except Unavailable:
                wait_s = backoff.next_s()
                if asyncio.get_running_loop().time() + wait_s > until_s:
                    mine = False
                    break
                await asyncio.sleep(wait_s)
        if not mine:
            self._lost.inc()
        elif decision.due_ms is not None and (wait_ms := decision.due_ms - self._now_ms()) < LOOK_S * 1000:
            # The next look might come later than that.
            asyncio.get_running_loop().call_later(max(wait_ms, 0) / 1000, self.wake)
        told = _log.warning if decision.state == "failed" else _log.debug
        told(
            "webhooks.tried",
            job_id=due.job_id, host=due.host, outcome=tried.outcome, status=tried.status, state=decision.state,
            tries=due.tries + 1, kept=mine,
        )  # fmt: skip  # one line of the log

    def _now_ms(self) -> float:
        """Now by the clock of Redis, which all times of webhooks are by."""
        return asyncio.get_running_loop().time() * 1000 + self._clock_ms
