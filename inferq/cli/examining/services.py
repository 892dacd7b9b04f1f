"""Our processes and their ports: do they live, are they ready, does anybody else listen where they should."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import psutil

from inferq.cli.deployment import Deployment
from inferq.cli.examining.directcall import CallFailed, call_batcher
from inferq.cli.examining.finding import Finding, note, ok, wrong
from inferq.cli.examining.listeners import Listener, listeners
from inferq.plurals import counted
from inferq.probe import Answer, ask, reachable
from inferq.runfile import RunningService

_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})


class _Batches(msgspec.Struct):
    total_batches: int
    avg_batch_size: float


class _Health(msgspec.Struct):
    """What is read of a batcher's answer."""

    healthy: bool
    reason: str
    total_requests: int
    cache_hit_rate: float
    device: str
    model: str
    engine_pid: int | None
    batch_processor: _Batches


def services_of(deployment: Deployment) -> list[RunningService]:
    """Return the services of a deployment: those that `inferq up` started, else those that the settings mean."""
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


async def look_at_service(service: RunningService) -> list[Finding]:
    """Ask a service whether it lives and is ready."""
    place, name = f"{service.host}:{service.port}", service.name
    kind = name.partition("-")[0]
    variable = f"INFERQ_{kind.upper()}_PORT"
    alive = await ask(service.host, service.port, "/healthz")
    said = _object(alive)
    if alive.status == 0:
        there = listeners({service.port})[service.port]
        if there:
            holders = ", ".join(one.who for one in there)
            return [
                wrong(name, f"{place}: {holders} listens there and does not answer ({alive.complaint})",
                      f"if that is not our {kind}, stop it or set {variable}; if it is, it hangs: restart it"),
            ]  # fmt: skip  # what was found, then the cure
        start = f"start it (`inferq up`, or `python -m {kind}`), or set {variable} to where it listens"
        return [wrong(name, f"{place}: {alive.complaint}", start)]
    if said.get("status") == "stuck":
        return [
            wrong(
                name, f"{place} is stuck: {said.get('reason')}", "restart it; `inferq up` does so by itself"
            )
        ]
    if said.get("status") != "ok":
        there = listeners({service.port})[service.port]
        who = ", ".join(one.who for one in there) or "another program"
        cure = f"stop it, or set {variable} to another port"
        return [wrong(name, f"{place}: {who} answers there, which is not our {kind}", cure)]
    ready = await ask(service.host, service.port, "/readyz")
    if not ready.ok:
        cure = "mend what is named there; it recovers by itself"
        return [wrong(name, f"{place} lives but is not ready: {ready.complaint}", cure)]
    return [ok(name, f"{place} is ready")]


def look_at_ports(services: Sequence[RunningService], supervisor: int | None) -> list[Finding]:
    """Say who listens on our ports; ``supervisor`` is the process that ours stem from, if it is known."""
    found = listeners({service.port for service in services})
    if not any(found.values()):
        return [ok("ports", f"nobody listens on {_list(found)}")]
    if supervisor is None:
        told = [f"{port}: {', '.join(one.who for one in there)}" for port, there in found.items() if there]
        return [ok("ports", "; ".join(told))]
    hosts = {service.port: service.host for service in services}
    judged = [
        _stranger(one, hosts[port])
        for port, there in found.items()
        for one in there
        if supervisor not in one.parents
    ]
    return judged or [ok("ports", f"ours alone listen on {_list(found)}")]


async def look_at_batcher(service: RunningService, key: str | None = None) -> list[Finding]:
    """Ask a batcher, past the queue, how it is, and call its model; nothing where nobody answers."""
    answer = await ask(service.host, service.port, "/health")
    if answer.status == 0:
        return []
    place = f"{service.name} at {service.host}:{service.port}"
    try:
        said = msgspec.json.decode(answer.body, type=_Health)
    except msgspec.DecodeError:
        # Another program, or a batcher of another version.
        cure = f"see the finding {service.name} above; a batcher of another version must be restarted"
        return [wrong("direct", f"{place}: {answer.complaint or 'it says nothing of its health'}", cure)]
    batches = said.batch_processor
    told = (
        f"{place}: {counted(said.total_requests, 'job')} in"
        f" {counted(batches.total_batches, 'batch', 'batches')} of {batches.avg_batch_size:.1f},"
        f" {100 * said.cache_hit_rate:.0f} % found in its cache, {said.model} on {said.device}"
    )
    frozen = _frozen(said.engine_pid, service)
    if frozen:
        return [wrong("direct", f"{place}: {frozen}", f"wake it (kill -CONT {said.engine_pid}) or restart")]
    if not said.healthy:
        return [wrong("direct", f"{place}: {said.reason}", "mend what is named there, or restart it")]
    begun_s = time.perf_counter()
    try:
        answered = await call_batcher(service, said.model, key)
    except CallFailed as failure:
        return [wrong("direct", f"{place}: {failure}", failure.cure)]
    took_ms = (time.perf_counter() - begun_s) * 1000
    return [ok("direct", f"{told}; a call answers {answered} after {took_ms:.0f} ms")]


def _frozen(engine_pid: int | None, service: RunningService) -> str:
    """Say that a batcher's engine is stopped; nothing where it runs, or is on another machine."""
    if engine_pid is None or service.host not in {"127.0.0.1", "::1", "localhost"}:
        return ""
    try:
        process = psutil.Process(engine_pid)
        if "batcher.engine_process" in process.cmdline() and process.status() == psutil.STATUS_STOPPED:
            return f"its engine, process {engine_pid}, is stopped by a signal"
    except psutil.Error:
        pass
    return ""


def _stranger(one: Listener, host: str) -> Finding:
    detail = f"{one.who} listens on {one.address} port {one.port} as well and is not ours"
    if one.address == host or one.address in _EVERYWHERE:
        return wrong("ports", detail, "stop it, or give ours another port")
    return note("ports", detail, f"say {host} and not localhost, which may mean that one; or stop it")


def _list(ports: Mapping[int, object]) -> str:
    return ", ".join(map(str, sorted(ports)))


def _object(answer: Answer) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
