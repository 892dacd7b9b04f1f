"""How jobs leave a batcher's hands badly: each ends in the store and with the broker first, and is let go then."""

from collections.abc import Callable, Sequence

from batcher.burying import Undertaker
from batcher.engine import EngineLost
from batcher.intake import Refusal
from batcher.item import Item
from inferq.jobs import ErrorCode
from inferq.steps import Moved


class Failing:
    """``let_go`` is told what has ended, ``again`` which job may be tried once more, alone."""

    def __init__(
        self,
        undertaker: Undertaker,
        *,
        let_go: Callable[[Sequence[Item]], None],
        again: Callable[[Item], None],
    ) -> None:
        self._undertaker, self._let_go, self._again = undertaker, let_go, again
        # Ids of the jobs that are no items and whose refusal is under way.
        self.refused: list[str] = []

    async def refuse(self, refusal: Refusal) -> None:
        """Refuse a message. Beside the loop, like all that waits for a dead letter to be kept: a broker that takes no
        publishes must not keep us from draining its queues."""
        job_id = refusal.origin.job.job_id if refusal.origin is not None else ""
        self.refused.append(job_id)
        try:
            await self._undertaker.refuse(refusal.delivery, refusal.origin, refusal.code, refusal.reason)
        finally:
            self.refused.remove(job_id)

    async def bury(self, item: Item, moved: Moved) -> None:
        """Bury a job that failed before."""
        await self._undertaker.bury(item, moved)
        self._let_go([item])

    async def fail(self, item: Item, detail: str) -> None:
        """Fail a job that raised alone."""
        await self._undertaker.fail(item, ErrorCode.INFERENCE_FAILED, detail)
        self._let_go([item])

    async def charge(self, item: Item, error: EngineLost) -> None:
        """Count an attempt against a job that took the engine down alone."""
        code = ErrorCode.ENGINE_TIMEOUT if error.hung else ErrorCode.ENGINE_CRASHED
        if await self._undertaker.charge(item, code, str(error)):
            self._again(item)
        else:
            self._let_go([item])
