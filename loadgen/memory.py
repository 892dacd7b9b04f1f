"""How much memory processes take, their children included: proportional set size, so that shared pages count once."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import psutil

EVERY_S: Final = 1.0


def pss_mb(pid: int) -> float:
    """Return the PSS of a process and its descendants in MB; 0 for one that is gone."""
    total = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            total += one.memory_full_info().pss
    except psutil.NoSuchProcess:
        return 0.0
    return total / 1e6


async def watch_peaks(pids: Callable[[], Mapping[str, int]], peaks: dict[str, float]) -> None:
    """Keep the peak of each process in ``peaks``, by name, until cancelled."""
    while True:
        for name, pid in pids().items():
            peaks[name] = max(peaks.get(name, 0.0), await asyncio.to_thread(pss_mb, pid))
        await asyncio.sleep(EVERY_S)
