"""What each living process says of itself, once a second, in a hash in Redis.

An entry older than `LIVES_S` is that of a dead or frozen process and counts for nothing; whoever reads removes it.
"""

from typing import Final, TypeVar

import msgspec

from inferq.redis import Client, translated

EVERY_S: Final = 1.0
LIVES_S: Final = 10.0

_encode = msgspec.json.Encoder().encode


class BatchTotals(msgspec.Struct, kw_only=True):
    """What a batcher has run since it started; the histograms count batches.

    ``predicted_ms`` and ``inference_ms`` are sums over all batches: what the cost model said, and what they took;
    ``window_age_ms`` is one of how long the oldest job of each had been in the window when it closed.
    """

    count: int = 0
    jobs: int = 0
    size_histogram: dict[str, int] = {}
    close_reasons: dict[str, int] = {}
    tokens: int = 0
    padded_tokens: int = 0
    expired: int = 0
    splits: int = 0
    engine_restarts: int = 0
    predicted_ms: float = 0.0
    inference_ms: float = 0.0
    window_age_ms: float = 0.0


class CacheTotals(msgspec.Struct, kw_only=True):
    """How many lookups of a process found a result since it started, and how many did not."""

    hits: int = 0
    misses: int = 0


class BatcherCache(CacheTotals, kw_only=True):
    """A batcher's cache besides: how many results it keeps, and how long a lookup that found one took on average."""

    size: int = 0
    hit_us: float = 0.0


class BreakerFigures(msgspec.Struct, kw_only=True):
    """A circuit breaker of a process, by what it leads to; the counts are since the process started.

    ``half_open_in_s`` is how long it stays open, 0 when it is not.
    """

    name: str
    state: str
    failures: int
    successes: int
    opened: int
    half_open_in_s: float


class BatcherBeat(msgspec.Struct, kw_only=True):
    """A batcher: what it runs, what it holds, and how far into each queue it has seen.

    ``seen_ms`` gives, for each queue, when the youngest job that came from it was accepted. ``device`` is what the
    engine reports, ``fallback_reason`` why it is not the one that was asked for. ``drain_rate`` is jobs ended a second,
    over the last ten; ``recent_rate`` is the same over a shorter time where enough has ended in it, ``capacity_rate``
    what it can end when there is always work. ``digest`` and ``precision`` say what an answer is an answer of; the
    digest is empty until the model is loaded. ``layout`` says how the engine runs batches. ``latency`` counts the
    times of the last seconds, by what was timed and then by bucket (`inferq.quantiles`). ``shard_count`` is how many
    shards it knows of, ``shards`` which of them it consumes. ``card`` is what its model takes and answers, as
    `inferq.catalog` writes it, null until that is known.
    """

    id: str
    at_ms: int
    model: str
    device: str
    state: str
    last_progress_s: float
    drain_rate: float
    held: list[str]
    seen_ms: dict[str, int]
    batches: BatchTotals
    digest: str = ""
    precision: str = "fp32"
    fallback_reason: str | None = None
    layout: str = ""
    recent_rate: float = 0.0
    capacity_rate: float = 0.0
    latency: dict[str, dict[int, int]] = {}
    cache: BatcherCache = msgspec.field(default_factory=BatcherCache)
    shard_count: int = 1
    shards: list[int] = []
    breakers: list[BreakerFigures] = []
    card: msgspec.Raw = msgspec.Raw(b"null")


class IngressBeat(msgspec.Struct, kw_only=True):
    """An ingress: jobs queued a second, over the last ten, its lookups in the shared cache, and its breakers."""

    id: str
    at_ms: int
    arrival_rate: float
    cache: CacheTotals = msgspec.field(default_factory=CacheTotals)
    shard_count: int = 1
    breakers: list[BreakerFigures] = []


Beat = TypeVar("Beat", BatcherBeat, IngressBeat)


async def beat(redis: Client, key: str, entry: BatcherBeat | IngressBeat) -> None:
    """Write an entry; raises `Unavailable`."""
    async with translated("take the heartbeat"):
        await redis.hset(key, entry.id, _encode(entry))


async def leave(redis: Client, key: str, process_id: str) -> None:
    """Remove an entry, as a process that stops does; raises `Unavailable`."""
    async with translated("take the heartbeat"):
        await redis.hdel(key, process_id)


async def living(redis: Client, key: str, kind: type[Beat], now_ms: float) -> list[Beat]:
    """Return the entries of living processes, by id; raises `Unavailable`."""
    async with translated("answer"):
        rows = await redis.hgetall(key)
    entries, dead = [], []
    for process_id, data in sorted(rows.items()):
        try:
            entry = msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            dead.append(process_id)
            continue
        if now_ms - entry.at_ms <= LIVES_S * 1000:
            entries.append(entry)
        else:
            dead.append(process_id)
    if dead:
        async with translated("take the change"):
            await redis.hdel(key, *dead)
    return entries
