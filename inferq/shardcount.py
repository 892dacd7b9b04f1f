"""How many shards a deployment has: all of its processes must agree, or jobs would wait where nobody looks.

The number stands in Redis. A process that knows another one may change it only when no job is unfinished, since its
queue would be nobody's, and when no process lives that goes by the old number. Else its start is refused.
"""

from typing import Any, Final

from inferq.errors import OperatorError
from inferq.heartbeats import LIVES_S, BatcherBeat, IngressBeat, living
from inferq.names import Names
from inferq.redis import Client, evaluate, translated
from inferq.shard_scripts import AGREE

# Of a deployment that was begun before the number was kept.
BEFORE: Final = 1


async def agree(redis: Client, names: Names, now_ms: float) -> None:
    """Agree with all other processes on the number of shards.

    Raises:
        OperatorError: jobs wait, or processes live, that go by another number.
        Unavailable: Redis is away.
    """
    agreed, stands, _ = await _agree(redis, names, change=False)
    if agreed:
        return
    beats: list[BatcherBeat | IngressBeat] = [
        *await living(redis, names.batchers, BatcherBeat, now_ms),
        *await living(redis, names.ingresses, IngressBeat, now_ms),
    ]
    others = sorted(beat.id for beat in beats if beat.shard_count != names.shards)
    if others:
        raise OperatorError(
            f"{others[0]} runs with {_said(stands)}, this process with {_said(names.shards)}: give all processes the"
            f" same INFERQ_ROUTING and INFERQ_SHARDS, and stop the old ones first (one that was killed counts for"
            f" {LIVES_S:.0f} s)"
        )
    agreed, stands, unfinished = await _agree(redis, names, change=True)
    if not agreed:
        raise OperatorError(
            f"{unfinished} unfinished jobs are spread over {_said(stands)}, not {_said(names.shards)}: start with"
            f" {_settings(stands)} until they have ended, and change it then"
        )


async def _agree(redis: Client, names: Names, *, change: bool) -> tuple[bool, int, int]:
    async with translated("answer"):
        answer: Any = await evaluate(
            redis, AGREE, [names.sharding, names.open_jobs], [names.shards, BEFORE, int(change)]
        )
    agreed, stands, unfinished = answer
    return bool(agreed), stands, unfinished


def _said(shards: int) -> str:
    return "one queue" if shards == 1 else f"{shards} shards"


def _settings(shards: int) -> str:
    return "INFERQ_ROUTING=shared" if shards == 1 else f"INFERQ_ROUTING=hash INFERQ_SHARDS={shards}"
