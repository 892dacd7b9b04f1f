"""Which webhook a new job has, and whether one more may wait.

What waits is kept for days where a receiver is away, so there is a limit to it. How much that is, is asked at most once
in `LOOK_S`, and only for jobs that have a webhook.
"""

import asyncio
from typing import Final

from inferq.apikeys import Caller
from inferq.errors import Unavailable
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.policy import Policy
from ingress.requests import InferRequest, check_webhook

# Each takes a kilobyte or two in Redis.
MOST_WAITING: Final = 500_000
LOOK_S: Final = 1.0
RETRY_AFTER_S: Final = 60


class WebhookDoor:
    """Lets webhooks in, as ``policy`` says and while fewer than ``most_waiting`` wait."""

    def __init__(self, policy: Policy, outbox: Outbox, *, most_waiting: int = MOST_WAITING) -> None:
        self._policy, self._outbox, self._most_waiting = policy, outbox, most_waiting
        self._waiting = 0
        self._looked_s = float("-inf")

    async def look(self) -> None:
        """Count what waits, if the last count is old."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        try:
            self._waiting = await self._outbox.pending()
        except Unavailable:
            # Whoever asked will hear of it from the next step, which needs Redis too.
            self._looked_s = float("-inf")

    def choose(self, request: InferRequest, caller: Caller, *, resumed: bool) -> str:
        """Return the URL that is told of the job's end, empty for none.

        Raises:
            InvalidRequest: the URL is not taken.
            Unavailable: too many wait; a submit that is ``resumed`` was let in before.
        """
        webhook = check_webhook(request, self._policy, caller.webhook)
        if webhook and self._waiting >= self._most_waiting and not resumed:
            raise Unavailable(
                f"{self._most_waiting} webhooks are not delivered yet, and more are not taken",
                retry_after_s=RETRY_AFTER_S,
            )
        return webhook
