"""Who may still take a submit back, where another process may make it again.

A submit with an idempotency key can outlive its ingress: the record is there, its message perhaps not, and a repeat is
made under the same job id. From then on the first maker, which may only have been frozen, must not end the record.
"""

from enum import IntEnum

from inferq.redis import evaluate, translated
from inferq.scripts import ADOPT, DISOWN
from inferq.store import Store


class Adopted(IntEnum):
    """What became of a submit that was taken over: its message has to be published, or need not be."""

    TAKEN_BACK = 0
    UNPUBLISHED = 1
    ACCEPTED = 2


async def adopt(store: Store, job_id: str, maker: str) -> Adopted:
    """Take over a submit that another did not bring to its end; raises `Unavailable`."""
    async with translated("take the change"):
        return Adopted(await evaluate(store.redis, ADOPT, [store.names.job(job_id)], [maker]))


async def disown(store: Store, job_id: str, maker: str) -> bool:
    """Say whether a submit is still ``maker``'s to take back, and nobody else's any more; raises `Unavailable`."""
    async with translated("take the change"):
        return bool(await evaluate(store.redis, DISOWN, [store.names.job(job_id)], [maker]))
