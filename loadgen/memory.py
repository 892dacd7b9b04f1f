"""How much memory processes take, their children included: proportional set size, so that shared pages count once."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import psutil

EVERY_S: Final = 1.0


def pss_mb(pid: int) -> float | None:
    """Return the PSS of a process and its descendants in MB; None for a process that is gone."""
    try:
        process = psutil.Process(pid)
        total = process.memory_full_info().pss
        children = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    for child in children:
        try:
            total += child.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue  # Ended since it was listed; the others count all the same.
    return float(total / 1e6)


async def watch_peaks(pids: Callable[[], Mapping[str, int]], over: asyncio.Event) -> dict[str, float]:
    """Return the peak of each process, by name, of samples taken until ``over``, and once more then."""
    peaks: dict[str, float] = {}
    while True:
        last = over.is_set()
        for name, pid in pids().items():
            if (found_mb := await asyncio.to_thread(pss_mb, pid)) is not None:
                peaks[name] = max(peaks.get(name, 0.0), found_mb)
        if last:
            return peaks
        try:
            async with asyncio.timeout(EVERY_S):
                await over.wait()
        except TimeoutError:
            pass
