"""What `inferq doctor` looks at, each check by itself: what was found, and the cure where something is wrong."""

import importlib.util
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inferq.cli.credentials import NO_KEY
from inferq.cli.deployment import Deployment, Endpoint, find
from inferq.cli.resultwords import in_brief
from inferq.durability import weaknesses
from inferq.errors import InferqError, OperatorError
from inferq.probe import ask, reachable
from inferq.redaction import redact
from inferq.runfile import RunningService
from inferq.settings import Settings, require_servers, unknown

MIN_PYTHON: Final = (3, 11)
SAMPLE: Final = "everything works as it should"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at; ``cure`` says what to do where it is wrong."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


class Wrong(Exception):
    """Something is not as it must be."""

    def __init__(self, detail: str, cure: str) -> None:
        super().__init__(detail)
        self.detail, self.cure = detail, cure


async def examine(state_dir: Path | None, place: Endpoint | None, key: str | None) -> AsyncIterator[Finding]:
    """Yield findings one by one; a check whose ground is missing is left out.

    One job goes to ``place``, else to the deployment itself, with ``key`` where one is given.
    """
    yield await _checked("python", _python)
    try:
        deployment = find(state_dir)
    except OperatorError as error:
        yield Finding(name="settings", ok=False, detail=str(error), cure="correct the variable")
        return
    settings = deployment.settings
    yield await _checked("settings", lambda: _settings(deployment))
    for service in _services(deployment):
        yield await _checked(service.name, lambda service=service: _service(service))  # type: ignore[misc]  # binds now
    try:
        settings = require_servers(settings)
    except OperatorError as error:
        yield Finding(name="redis", ok=False, detail="no Redis is named", cure=str(error))
    else:
        yield await _checked("redis", lambda: _redis(settings))
        yield await _checked("broker", lambda: _broker(settings))
    yield await _checked("model", lambda: _model(settings))
    yield await _checked("device", lambda: _device(settings))
    yield await _checked("one job", lambda: _one_job(place or deployment.endpoint(key)))


async def _checked(name: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(name=name, ok=True, detail=await check())
    except Wrong as wrong:
        return Finding(name=name, ok=False, detail=wrong.detail, cure=wrong.cure)
    except InferqError as error:
        return Finding(name=name, ok=False, detail=str(error))


async def _python() -> str:
    version = platform.python_version()
    if sys.version_info[:2] < MIN_PYTHON:
        raise Wrong(f"Python {version}", f"use Python {'.'.join(map(str, MIN_PYTHON))} or newer")
    return f"Python {version} on {platform.system()} {platform.machine()}"


async def _settings(deployment: Deployment) -> str:
    if strangers := unknown(os.environ):
        raise Wrong(
            f"{', '.join(strangers)} is no setting", "see `inferq config` for those that are, and unset it"
        )
    running = deployment.running
    return "those of the environment" if running is None else f"those of `inferq up`, process {running.pid}"


def _services(deployment: Deployment) -> list[RunningService]:
    if deployment.running is not None:
        return deployment.running.services
    settings = deployment.settings
    ports = {
        "ingress": settings.ingress_port,
        "notifier": settings.notifier_port,
        "batcher": settings.batcher_port,
    }
    host = reachable(settings.host)
    return [RunningService(name=name, host=host, port=port) for name, port in ports.items()]


async def _service(service: RunningService) -> str:
    place = f"{service.host}:{service.port}"
    alive = await ask(service.host, service.port, "/healthz")
    if not alive.ok:
        kind = service.name.partition("-")[0]
        cure = f"start it (`inferq up`, or `python -m {kind}`), or set INFERQ_{kind.upper()}_PORT to where it listens"
        raise Wrong(f"{place}: {alive.complaint}", cure)
    ready = await ask(service.host, service.port, "/readyz")
    if not ready.ok:
        raise Wrong(
            f"{place} lives but is not ready: {ready.complaint}",
            "mend what is named there; it recovers by itself",
        )
    return f"{place} is ready"


async def _redis(settings: Settings) -> str:
    from inferq.redis import connect, translated

    place = redact(settings.redis_url)
    redis = connect(settings.redis_url)
    try:
        async with translated("answer"):
            info: dict[str, Any] = await redis.info()
    except InferqError as error:
        raise Wrong(f"{place}: {error}", "start that Redis, or correct INFERQ_REDIS_URL") from error
    finally:
        await redis.aclose()
    for weakness in weaknesses(info):
        raise Wrong(f"{place}: {weakness.detail}", weakness.cure)
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version")
    return f"{place}: {name} {version}, durable, evicts nothing"


async def _broker(settings: Settings) -> str:
    from inferq.cli.servers import open_broker

    place = redact(settings.broker_url)
    try:
        async with open_broker(settings) as broker:
            depth, dead = await broker.depth(), await broker.dead_count()
    except OperatorError:
        raise
    except InferqError as error:
        raise Wrong(f"{place}: {error}", "start that broker, or correct INFERQ_BROKER_URL") from error
    hint = "; see `inferq dead list`" if dead else ""
    return f"{place}: {depth} jobs wait, {dead} dead letters{hint}"


async def _model(settings: Settings) -> str:
    from inferq.modelfolder import digest, resolve
    from inferq.modelspec import ModelKind, parse

    spec = parse(settings.model)
    if spec.kind is ModelKind.HUB:
        from inferq.hubcache import cached

        commits = [model.commit for model in cached(settings.cache_path) if model.repo == spec.repo]
        if not commits:
            raise Wrong(f"{spec.text} is not downloaded", f"run: inferq model pull {spec.text}")
        return f"{spec.text} is in the cache (commit {', '.join(commits)})"
    folder = resolve(spec, cache_dir=settings.cache_path)
    if folder is None:
        return f"{spec.text} needs no files"
    return f"{spec.text}: {folder.path}, sha256 {digest(folder.path)[:12]}"


async def _device(settings: Settings) -> str:
    if importlib.util.find_spec("onnxruntime") is None:
        raise Wrong("onnxruntime is not installed", "install inferq[cpu], or inferq[gpu] for CUDA")
    import onnxruntime

    cuda = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    if settings.device == "cuda" and not cuda:
        raise Wrong(
            f"onnxruntime {onnxruntime.__version__} knows no CUDA",
            "install inferq[gpu], or set INFERQ_DEVICE=auto",
        )
    used = "CUDA where it works, else the CPU" if cuda and settings.device != "cpu" else "the CPU"
    return f"onnxruntime {onnxruntime.__version__} uses {used}"


async def _one_job(place: Endpoint) -> str:
    from inferq import ClientError
    from inferq.cli.calls import NoKey, connected

    url, begun_s = place.url, time.perf_counter()
    try:
        async with connected(place, patience_s=5.0) as client:
            record = await client.wait(await client.submit(SAMPLE), timeout_s=30.0)
    except NoKey as refused:
        raise Wrong(f"{url} asks for an API key that it knows", NO_KEY) from refused
    except ClientError as error:
        raise Wrong(
            f"{url}: {error}", "mend what is wrong above; with nothing wrong there, see the logs"
        ) from error
    if record.result is None:
        why = record.error.detail if record.error is not None else record.status
        raise Wrong(f"{url}: the job ended without a result: {why}", "see the batcher's log")
    return (
        f"{in_brief(record.result)} after {(time.perf_counter() - begun_s) * 1000:.0f} ms, submitted at {url}"
    )
