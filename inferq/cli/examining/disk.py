"""The disks that jobs are kept on: room, and how long a write takes until it is safe."""

import os
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from inferq.cli.examining.finding import Finding, note, ok, wrong
from inferq.daemon import beside

SYNCS: Final = 5
LEAST_BYTES: Final = 64 * 1024 * 1024
LOW_BYTES: Final = 1024 * 1024 * 1024
SLOW_MS: Final = 50.0
_BLOCK: Final = bytes(4096)
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Disk:
    """What was seen of a folder's disk; ``sync_ms`` is None where it was not tried, ``error`` says why it failed."""

    folder: Path
    free_bytes: int
    sync_ms: float | None = None
    error: str = ""


async def look_at_disks(state_dir: Path, redis_dir: Path | None) -> list[Finding]:
    """Look at the state folder, and at the folder of a Redis on this machine where that is another one."""
    folders = [(state_dir, "the state folder", True)]
    if redis_dir is not None and not redis_dir.is_relative_to(state_dir):
        folders.append((redis_dir, "Redis's data", False))
    found: list[Finding] = []
    for folder, what, ours in folders:
        if folder.is_dir():
            found += judge_disk(await beside(partial(measure, folder, ours)), what)
    return found or [ok("disk", f"there is no state folder yet ({state_dir})")]


def measure(folder: Path, writes: bool) -> Disk:
    """Measure a folder's disk; ``writes`` lets it write a few blocks and wait until they are safe."""
    free_bytes = shutil.disk_usage(folder).free
    if not writes:
        return Disk(folder=folder, free_bytes=free_bytes)
    probe = folder / f"doctor-{os.getpid()}.probe"
    took_ms = []
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            for _ in range(SYNCS):
                begun = time.perf_counter()
                os.write(descriptor, _BLOCK)
                os.fdatasync(descriptor)
                took_ms.append((time.perf_counter() - begun) * 1000)
        finally:
            os.close(descriptor)
            probe.unlink()
    except OSError as error:
        return Disk(folder=folder, free_bytes=free_bytes, error=error.strerror or type(error).__name__)
    return Disk(folder=folder, free_bytes=free_bytes, sync_ms=median(took_ms))


def judge_disk(disk: Disk, what: str) -> list[Finding]:
    """Return what is to be said of a disk."""
    free = f"{what} {disk.folder} has {disk.free_bytes / _MIB:,.0f} MiB free"
    room = "make room on its disk, or move it to a larger one (--state)"
    if disk.error and disk.free_bytes >= LEAST_BYTES:
        return [
            wrong("disk", f"{what} {disk.folder} cannot be written: {disk.error}", "let this user write it")
        ]
    if disk.free_bytes < LEAST_BYTES:
        return [wrong("disk", f"{free}: soon no job is taken", room)]
    if disk.free_bytes < LOW_BYTES:
        return [note("disk", free, room)]
    if disk.sync_ms is None:
        return [ok("disk", free)]
    told = f"{free}; a write is safe after {disk.sync_ms:.1f} ms"
    if disk.sync_ms > SLOW_MS:
        cure = "put it on a faster disk: every accepted job waits for one such write"
        return [note("disk", told, cure)]
    return [ok("disk", told)]
