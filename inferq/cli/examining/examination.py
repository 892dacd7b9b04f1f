"""All that `inferq doctor` looks at, in its order; a check whose ground is missing is left out."""

import asyncio
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from inferq.cli.deployment import Deployment, Endpoint, find
from inferq.cli.examining import clockview
from inferq.cli.examining.brokercheck import look_at_broker
from inferq.cli.examining.device import look_at_device
from inferq.cli.examining.disk import look_at_disks
from inferq.cli.examining.finding import Finding, of_error, ok, wrong
from inferq.cli.examining.modelcheck import judge_loaded, look_at_models
from inferq.cli.examining.onejob import send_one
from inferq.cli.examining.redischeck import Told, look_at_redis
from inferq.cli.examining.services import (
    look_at_batcher,
    look_at_ports,
    look_at_service,
    services_of,
)
from inferq.connection import target
from inferq.errors import InferqError, OperatorError
from inferq.heartbeats import EVERY_S, BatcherBeat, IngressBeat, living
from inferq.ports import LOOPBACK
from inferq.redis import connect
from inferq.runfile import default_state_dir
from inferq.settings import Settings, require_servers, unknown

MIN_PYTHON: Final = (3, 11)
NEXT_SIGN_S: Final = EVERY_S + 0.5


async def examine(
    state_dir: Path | None, place: Endpoint | None, key: str | None
) -> AsyncIterator[Sequence[Finding]]:
    """Yield findings part by part.

    One job goes to ``place``, else to the deployment itself, with ``key`` where one is given.
    """
    begun = _tick()
    yield [_python()]
    try:
        deployment = find(state_dir)
    except OperatorError as error:
        yield [of_error("settings", error)]
        return
    yield [_settings(deployment)]
    services = services_of(deployment)
    # Together: of many that hang each takes seconds.
    for seen in await asyncio.gather(*map(look_at_service, services)):
        yield seen
    supervisor = deployment.running.pid if deployment.running is not None else None
    yield look_at_ports(services, supervisor)
    batchers: list[BatcherBeat] = []
    told, signs_ms, rabbit_ms, settings = None, dict[str, float](), None, deployment.settings
    try:
        settings = require_servers(settings)
    except OperatorError as error:
        yield [of_error("redis", error)]
    else:
        found, told = await look_at_redis(settings)
        yield found
        found, managed = await look_at_broker(settings)
        yield found
        rabbit_ms = managed.ahead_ms if managed is not None else None
        if told is not None:
            batchers, signs_ms = await _living(settings, told)
    found, digests = await look_at_models(settings)
    yield found
    if told is not None:
        yield judge_loaded(batchers, digests)
    yield await look_at_device(settings.device, batchers)
    yield await look_at_disks(state_dir or default_state_dir(), _data_dir(settings, told))
    if told is not None:
        yield clockview.judge(
            redis_ahead_ms=told.ahead_ms,
            rabbit_ahead_ms=rabbit_ms,
            signs_ms=signs_ms,
            begun=begun,
            ended=_tick(),
        )
    own = deployment.endpoint(key)
    for service in services:
        if service.name.startswith("batcher"):
            yield await look_at_batcher(service, own.key)
    yield [await send_one(place or own, settings)]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < MIN_PYTHON:
        return wrong("python", f"Python {version}", f"use Python {'.'.join(map(str, MIN_PYTHON))} or newer")
    return ok("python", f"Python {version} on {platform.system()} {platform.machine()}")


def _settings(deployment: Deployment) -> Finding:
    if strangers := unknown(os.environ):
        cure = "see `inferq config` for those that are, and unset it"
        return wrong("settings", f"{', '.join(strangers)} is no setting", cure)
    running = deployment.running
    whose = "those of the environment" if running is None else f"those of `inferq up`, process {running.pid}"
    return ok("settings", whose)


async def _living(settings: Settings, told: Told) -> tuple[list[BatcherBeat], dict[str, float]]:
    """Return the living batchers, and how far the last sign of each process is ahead of Redis's clock."""
    redis = connect(settings.redis_url)
    signs_ms: dict[str, float] = {}
    try:
        # By Redis's clock: by ours, were it wrong, all would look dead.
        now_ms = time.time() * 1000 + told.ahead_ms
        batchers = await living(redis, settings.names.batchers, BatcherBeat, now_ms)
        if not all(beat.digest for beat in batchers):
            # One that has just become ready says so with its next life sign.
            await asyncio.sleep(NEXT_SIGN_S)
            now_ms = time.time() * 1000 + told.ahead_ms
            batchers = await living(redis, settings.names.batchers, BatcherBeat, now_ms)
        ingresses = await living(redis, settings.names.ingresses, IngressBeat, now_ms)
        signs_ms = {beat.id: beat.at_ms - now_ms for beat in batchers}
        signs_ms |= {beat.id: beat.at_ms - now_ms for beat in ingresses}
    except InferqError:
        return [], {}
    finally:
        await redis.aclose()
    return batchers, signs_ms


def _data_dir(settings: Settings, told: Told | None) -> Path | None:
    """Return where a Redis on this machine keeps its data, if it says so."""
    if told is None or "dir" not in told.config:
        return None
    here = target(settings.redis_url).host in {LOOPBACK, "::1", "localhost"}
    return Path(told.config["dir"]) if here else None


def _tick() -> clockview.Tick:
    return clockview.Tick(wall_ms=time.time() * 1000, steady_ms=time.monotonic() * 1000)
