"""What a Redis says of itself, judged: durability, eviction, memory, last writes, version, latency. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from inferq.cli.examining.finding import Finding, note, ok, wrong
from inferq.durability import weaknesses

# What Streams are read with (XAUTOCLAIM, exclusive ranges).
LEAST_VERSION: Final = (6, 2)
NEARLY_FULL: Final = 0.9
FILLING: Final = 0.75
# A submit takes a few round trips.
SLOW_MS: Final = 20.0
_MIB: Final = 1024 * 1024


def name_of(info: Mapping[str, Any]) -> str:
    """Return the server's name and version."""
    return (
        f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
    )


def judge(place: str, info: Mapping[str, Any], config: Mapping[str, str], latency_ms: float) -> list[Finding]:
    """Return what is to be said of a Redis by its INFO, what it tells of its configuration, and its round trip."""
    found = [wrong("redis", f"{place}: {weakness.detail}", weakness.cure) for weakness in weaknesses(info)]
    found += _refusing(place, info)
    if "valkey_version" not in info and version_of(info) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        found.append(wrong("redis", f"{place}: {name_of(info)} is too old", f"use Redis {least} or Valkey"))
    if not found:
        found.append(
            ok("redis", f"{place}: {name_of(info)}, durable, evicts nothing, answers in {latency_ms:.2f} ms")
        )
    policy = config.get("appendfsync", "always")
    if policy != "always" and int(info.get("aof_enabled", 0)):
        lost = "up to a second" if policy == "everysec" else "what the system had not written"
        detail = (
            f"{place}: appendfsync is {policy}, so a crash of its machine may lose {lost} of accepted jobs"
        )
        found.append(note("redis", detail, "set appendfsync to always there, if that must not be"))
    if latency_ms > SLOW_MS:
        detail = f"{place}: a round trip takes {latency_ms:.0f} ms, and each job needs several"
        found.append(note("redis", detail, "bring it nearer, or look for what keeps it busy (SLOWLOG GET)"))
    return found


def judge_memory(info: Mapping[str, Any]) -> list[Finding]:
    """Return what is to be said of its memory."""
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    total = int(info.get("total_system_memory", 0))
    most = limit or total
    if not most:
        return [ok("memory", f"Redis uses {used / _MIB:.0f} MiB; it does not say of how much")]
    share = used / most
    whose = "are its maxmemory" if limit else "its machine has"
    detail = f"Redis uses {used / _MIB:.0f} MiB of the {most / _MIB:.0f} MiB that {whose}"
    cure = "raise maxmemory there, or keep results for a shorter time (INFERQ_RESULT_TTL_S)"
    if share >= NEARLY_FULL:
        return [wrong("memory", f"{detail}: soon it takes no jobs", cure)]
    return [note("memory", detail, cure) if share >= FILLING else ok("memory", detail)]


def version_of(info: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the version as numbers."""
    digits = str(info.get("redis_version", "0")).split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in digits)


def _refusing(place: str, info: Mapping[str, Any]) -> list[Finding]:
    found = []
    if info.get("role", "master") != "master":
        detail = f"{place} is a replica and takes no writes"
        found.append(wrong("redis", detail, "name its primary in INFERQ_REDIS_URL"))
    if int(info.get("loading", 0)):
        found.append(wrong("redis", f"{place} still reads its data", "wait until it has"))
    for field, what in (("aof_last_write_status", "write"), ("aof_last_bgrewrite_status", "rewrite")):
        if info.get(field, "ok") != "ok":
            detail = f"{place}: the last {what} of its append-only file failed"
            found.append(wrong("redis", detail, "look at its log; is its disk full?"))
    return found
