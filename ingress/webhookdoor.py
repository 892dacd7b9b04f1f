"""Which webhook a new job has, and whether one more may wait.

What waits is kept for days where a receiver is away, so there is a limit to it, and one to what an API key has of it.
How much that is, is asked at most once in `LOOK_S` for each key, and only for jobs that have a webhook.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from inferq.apikeys import Caller
from inferq.errors import Unavailable
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.policy import Policy
from ingress.requests import InferRequest, check_webhook

# Each takes a kilobyte or two in Redis.
MOST_WAITING: Final = 500_000
MOST_OF_KEY: Final = 100_000
LOOK_S: Final = 1.0
# A Redis that takes longer to count is in trouble, and the submit has more need of the time.
COUNT_S: Final = 0.2
RETRY_AFTER_S: Final = 60
# Keys come and go; what was counted for those that went need not be kept.
MOST_COUNTS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Count:
    """What waited at a look, in all and of one owner."""

    looked_s: float
    all: int = 0
    own: int = 0


class WebhookDoor:
    """Lets webhooks in, as ``policy`` says and while fewer than ``most_waiting`` wait, ``most_of_key`` of one key.

    Without keys there is one caller, who may have all.
    """

    def __init__(
        self,
        policy: Policy,
        outbox: Outbox,
        *,
        most_waiting: int = MOST_WAITING,
        most_of_key: int = MOST_OF_KEY,
    ) -> None:
        self._policy, self._outbox = policy, outbox
        self._most_waiting, self._most_of_key = most_waiting, most_of_key
        self._counts: dict[str, _Count] = {}

    async def look(self, caller: Caller) -> None:
        """Count what waits, if the caller's last count is old."""
        now_s = asyncio.get_running_loop().time()
        last = self._counts.get(caller.name)
        if last is not None and now_s - last.looked_s < LOOK_S:
            return
        if len(self._counts) >= MOST_COUNTS:
            self._counts.clear()
        # Those who come meanwhile go by the last count.
        self._counts[caller.name] = replace(last or _Count(looked_s=now_s), looked_s=now_s)
        try:
            async with asyncio.timeout(COUNT_S):
                waiting, own = await self._outbox.counts(caller.name)
        except (TimeoutError, Unavailable):
            # Whoever asked will hear of it from the next step, which needs Redis too.
            self._counts.pop(caller.name, None)
        else:
            self._counts[caller.name] = _Count(looked_s=now_s, all=waiting, own=own)

    def choose(self, request: InferRequest, caller: Caller, *, resumed: bool) -> str:
        """Return the URL that is told of the job's end, empty for none.

        Raises:
            InvalidRequest: the URL is not taken.
            Unavailable: too many wait, by the caller's last look; a submit that is ``resumed`` was let in before.
        """
        webhook = check_webhook(request, self._policy, caller.webhook)
        count = self._counts.get(caller.name)
        if webhook and count is not None and not resumed:
            self._check_room(caller, count)
        return webhook

    def _check_room(self, caller: Caller, count: _Count) -> None:
        if caller.name and count.own >= self._most_of_key:
            of = f"{self._most_of_key} webhooks of this key"
        elif count.all >= self._most_waiting:
            of = f"{self._most_waiting} webhooks"
        else:
            return
        raise Unavailable(f"{of} are not delivered yet, and more are not taken", retry_after_s=RETRY_AFTER_S)
