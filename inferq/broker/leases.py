"""Who is alive: each consumer of the streams renews a key that goes by itself.

Reading by idle time would rob a slow batcher in the middle of a long batch. A lease says what counts: whether the
process still runs. It lasts `LEASE_MS` and is renewed every `RENEW_S`; every living consumer looks each `RENEW_S` for
consumers without one and takes over what they held, so a dead one's jobs run again within `LEASE_MS` plus one look.
"""

from collections.abc import Sequence
from typing import Final

from inferq.broker.stream_scripts import CLAIM, GIVE_BACK, NOBODY
from inferq.names import GROUP, Names
from inferq.redis import Client, evaluate, evaluate_many

LEASE_MS: Final = 5_000
RENEW_S: Final = 1.0

# Its id and its fields, name by value, as Redis answers; without fields when it was deleted.
Entry = tuple[bytes, list[bytes] | None]


async def renew(redis: Client, names: Names, consumer: str) -> None:
    """Renew a consumer's lease."""
    await redis.set(names.lease(consumer), b"1", px=LEASE_MS)


async def release(redis: Client, names: Names, consumer: str) -> None:
    """End a consumer's lease at once."""
    await redis.delete(names.lease(consumer))


async def claim(redis: Client, names: Names, stream: str, consumer: str, room: int) -> list[Entry]:
    """Take over at most ``room`` entries of dead consumers of a stream; forgets dead consumers without entries."""
    entries: list[Entry] = await evaluate(redis, CLAIM, [stream], [GROUP, consumer, names.lease(""), room])
    return entries


async def claim_many(
    redis: Client, names: Names, streams: Sequence[str], consumer: str, room: int
) -> list[list[Entry]]:
    """Do as `claim` for many streams in one write, at most ``room`` entries of each; return those of each."""
    calls = [([stream], [GROUP, consumer, names.lease(""), room]) for stream in streams]
    return await evaluate_many(redis, CLAIM, calls) if calls else []


async def abandon(redis: Client, stream: str, consumer: str, entry_ids: Sequence[bytes]) -> None:
    """Let the next one who looks have entries that are still the consumer's."""
    await evaluate(redis, GIVE_BACK, [stream], [GROUP, consumer, NOBODY, *entry_ids])
