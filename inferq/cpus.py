"""How many CPUs this process may use: its affinity and its cgroup's quota, not the host's count."""

import os
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """Return the CPUs that this process may use, at least 1."""
    allowed = len(os.sched_getaffinity(0))
    quota = _cgroup_quota()
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _cgroup_quota() -> float | None:
    """Return the smallest CPU quota of this process's cgroup and its parents, in CPUs."""
    quotas = [quota for group in _own_groups() if (quota := _group_quota(group)) is not None]
    return min(quotas, default=None)


def _own_groups() -> list[Path]:
    """Return the process's cgroup folders (version 2, or 1 with the cpu controller) up to their roots."""
    groups: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return groups
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            root = _CGROUP_ROOT
        elif "cpu" in controllers.split(","):
            root = _CGROUP_ROOT / controllers
        else:
            continue
        group = root / name.lstrip("/")
        groups += [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return groups


def _group_quota(group: Path) -> float | None:
    try:
        if (limit := group / "cpu.max").exists():
            quota, period = limit.read_text(encoding="ascii").split()
            return None if quota == "max" else int(quota) / int(period)
        quota_us = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period_us = int((group / "cpu.cfs_period_us").read_text(encoding="ascii"))
        return quota_us / period_us if quota_us > 0 else None
    except (OSError, ValueError):
        return None
