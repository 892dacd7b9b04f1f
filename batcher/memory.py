"""How much memory is left for this process: the host's, and what its cgroups allow."""

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
# Names of limit, use, and the reclaimable part of the use, in version 2 of cgroups and in version 1.
_VERSION_2: Final = ("memory.max", "memory.current", "inactive_file")
_VERSION_1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def available_bytes(*, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return how much this process may still take before something is swapped out or killed; None: not known."""
    rooms = [_group_room(group, names) for group, names in _own_groups(proc, cgroups)]
    rooms.append(_field(proc / "meminfo", "MemAvailable:"))
    return min((room for room in rooms if room is not None), default=None)


def resident_bytes(*, proc: Path = _PROC) -> int:
    """Return how much memory this process has now, 0 when that is not known."""
    return _field(proc / "self/status", "VmRSS:") or 0


def peak_bytes(*, proc: Path = _PROC) -> int:
    """Return the most memory that this process has had, 0 when that is not known."""
    return _field(proc / "self/status", "VmHWM:") or 0


def _own_groups(proc: Path, cgroups: Path) -> list[tuple[Path, tuple[str, str, str]]]:
    """Return the folders of this process's cgroups up to their roots, with the names of what they hold."""
    found: list[tuple[Path, tuple[str, str, str]]] = []
    for line in _lines(proc / "self/cgroup"):
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            root, names = cgroups, _VERSION_2
        elif "memory" in controllers.split(","):
            root, names = cgroups / controllers, _VERSION_1
        else:
            continue
        group = root / name.lstrip("/")
        found += [(folder, names) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return found


def _group_room(group: Path, names: tuple[str, str, str]) -> int | None:
    limit_name, use_name, reclaimable_name = names
    try:
        limit = (group / limit_name).read_text(encoding="ascii").strip()
        use = int((group / use_name).read_text(encoding="ascii"))
        if limit == "max":
            return None
        stat = dict(line.split() for line in _lines(group / "memory.stat"))
        return max(0, int(limit) - use + int(stat.get(reclaimable_name, 0)))
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    """Return a field of /proc that is given in kB, in bytes."""
    for line in _lines(file):
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
