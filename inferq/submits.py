"""Who may still take a submit back, where another process may make it again.

A submit with an idempotency key can outlive its ingress: the record is there, its message perhaps not, and a repeat is
made under the same job id. From then on the first maker, which may only have been frozen, must not end the record.
"""

from collections.abc import Sequence
from enum import IntEnum

from inferq.redis import evaluate, evaluate_many, translated
from inferq.scripts import ADOPT, DISOWN
from inferq.steps import Origin
from inferq.store import Store


class Adopted(IntEnum):
    """What became of a submit that was taken over: its message has to be published, or need not be."""

    TAKEN_BACK = 0
    UNPUBLISHED = 1
    ACCEPTED = 2


async def adopt(store: Store, origins: Sequence[Origin]) -> list[Adopted]:
    """Take over submits that another did not bring to their end, in one write; raises `Unavailable`."""
    calls = [([store.names.job(origin.job.job_id)], [origin.submit]) for origin in origins]
    async with translated("take the change"):
        return [Adopted(answer) for answer in await evaluate_many(store.redis, ADOPT, calls)]


async def disown(store: Store, job_id: str, maker: str) -> bool:
    """Say whether a submit is still ``maker``'s to take back, and nobody else's any more; raises `Unavailable`."""
    async with translated("take the change"):
        return bool(await evaluate(store.redis, DISOWN, [store.names.job(job_id)], [maker]))
