"""What processes use over a stretch of a load: CPU by name, what Redis counts of itself, and bytes on the loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from inferq.redis import connect
from loadgen.capacity.costs import BATCHER
from loadgen.cputime import CpuMeter
from loadgen.deployment import Deployment, emptied

WITHIN_S: Final = 120.0
ENGINE: Final = "engine"
LOOPBACK_NAMES: Final = ("lo", "lo0")
REDIS_COUNTS: Final = ("used_memory", "aof_current_size", "total_commands_processed")


@dataclass(kw_only=True)
class Used:
    """What was used over a stretch: CPU in seconds by process, what Redis counts, and bytes over the loopback."""

    cpu_s: dict[str, float]
    redis: dict[str, float]
    network_bytes: float = 0.0


@asynccontextmanager
async def counted(deployment: Deployment) -> AsyncIterator[Used]:
    """Count from here until every job has ended; what was counted is there at the end."""
    names = {"batcher-1": BATCHER}
    pids = {names.get(name, name): pid for name, pid in deployment.pids().items()} | engines(deployment)
    used = Used(cpu_s={}, redis={})
    redis = connect(deployment.settings.redis_url)
    try:
        before = await redis.info()
        meter, network = CpuMeter(pids), _loopback_bytes()
        yield used
        await emptied(deployment, within_s=WITHIN_S)
        cpu_s, used.network_bytes = meter.seconds(), _loopback_bytes() - network
        after = await redis.info()
    finally:
        await redis.aclose()
    cpu_s[BATCHER] -= sum(cpu_s.pop(name) for name in list(cpu_s) if name.startswith(ENGINE))
    used.cpu_s = cpu_s
    used.redis = {name: float(after[name]) - float(before[name]) for name in REDIS_COUNTS}


def engines(deployment: Deployment) -> dict[str, int]:
    """Return the processes of the engine, by name."""
    batcher = psutil.Process(deployment.pid("batcher-1"))
    return {f"{ENGINE}-{number}": child.pid for number, child in enumerate(batcher.children())}


def _loopback_bytes() -> float:
    counted = psutil.net_io_counters(pernic=True)
    return float(sum(counted[name].bytes_sent for name in LOOPBACK_NAMES if name in counted))
