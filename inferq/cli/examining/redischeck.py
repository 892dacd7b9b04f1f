"""Asks a Redis of what it is and how it is."""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from inferq.awaycures import REDIS_AWAY
from inferq.cli.examining.finding import Finding, wrong
from inferq.cli.examining.redisview import judge, judge_memory
from inferq.errors import InferqError
from inferq.redaction import redact
from inferq.redis import Client, connect, translated
from inferq.settings import Settings

PINGS: Final = 9
_CONFIG: Final = ("appendfsync", "dir")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a Redis told of itself; ``config`` is empty where it keeps that to itself."""

    info: dict[str, Any]
    config: dict[str, str]
    latency_ms: float
    ahead_ms: float
    """How far its clock is ahead of ours."""


async def look_at_redis(settings: Settings) -> tuple[list[Finding], Told | None]:
    """Return what is to be said of the Redis of the records, and what it told, if it did."""
    place = redact(settings.redis_url)
    redis = connect(settings.redis_url)
    try:
        async with translated("answer"):
            told = await _told(redis)
    except InferqError as error:
        if isinstance(error.__cause__, AuthenticationError | NoPermissionError):
            cure = "correct user and password in INFERQ_REDIS_URL, or what that user may do there"
            return [wrong("redis", f"{place} refuses this user or password", cure)], None
        return [wrong("redis", f"{place}: {error}", REDIS_AWAY)], None
    finally:
        await redis.aclose()
    return [*judge(place, told.info, told.config, told.latency_ms), *judge_memory(told.info)], told


async def _told(redis: Client) -> Told:
    info: dict[str, Any] = await redis.info()
    took_ms, ahead_ms = [], []
    for _ in range(PINGS):
        begun, wall_begun_s = time.perf_counter(), time.time()
        seconds, micros = await redis.commands.call("TIME")
        round_ms = (time.perf_counter() - begun) * 1000
        took_ms.append(round_ms)
        theirs_ms = int(seconds) * 1000 + int(micros) / 1000
        # As if it had read its clock half way.
        ahead_ms.append((round_ms, theirs_ms - wall_begun_s * 1000 - round_ms / 2))
    config = {}
    for name in _CONFIG:
        try:
            answer = await redis.commands.call("CONFIG", "GET", name)
        except RedisError:
            # Managed servers refuse it.
            continue
        if len(answer) == 2:
            config[name] = bytes(answer[1]).decode(errors="replace")
    return Told(info=info, config=config, latency_ms=median(took_ms), ahead_ms=min(ahead_ms)[1])
