"""How much memory is left, on systems of several kinds."""

from pathlib import Path

import pytest

from batcher.memory import available_bytes, peak_bytes, resident_bytes

MIB = 1 << 20


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of a host with 1000 MiB to spare."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 9999999 kB\nMemAvailable:  {1000 * 1024} kB\n")
    (tmp_path / "proc/self/status").write_text("Name: python\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n")
    return tmp_path / "proc"


def _limit(folder: Path, names: tuple[str, str], limit: str, use: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(limit)
    (folder / names[1]).write_text(str(use))
    (folder / "memory.stat").write_text(stat)


def test_the_host_alone(proc: Path, tmp_path: Path) -> None:
    """Without a cgroup that limits it, a process may take what the host has; nothing known is None."""
    assert available_bytes(proc=proc, cgroups=tmp_path / "none") == 1000 * MIB
    assert available_bytes(proc=tmp_path / "none", cgroups=tmp_path / "none") is None
    assert (resident_bytes(proc=proc), peak_bytes(proc=proc)) == (200 * 1024, 300 * 1024)
    assert (resident_bytes(proc=tmp_path / "none"), peak_bytes(proc=tmp_path / "none")) == (0, 0)


def test_the_tightest_group_counts(proc: Path, tmp_path: Path) -> None:
    """Version 2: the group and its parents each may limit; page cache that can go is no use."""
    (proc / "self/cgroup").write_text("0::/pod/container\n")
    names = ("memory.max", "memory.current")
    root = tmp_path / "groups"
    _limit(root / "pod/container", names, "max\n", 100 * MIB, "anon 1\n")
    _limit(root / "pod", names, str(500 * MIB), 200 * MIB, f"anon 1\ninactive_file {50 * MIB}\n")
    assert available_bytes(proc=proc, cgroups=root) == 350 * MIB
    _limit(root / "pod/container", names, str(90 * MIB), 100 * MIB, "anon 1\n")
    assert available_bytes(proc=proc, cgroups=root) == 0


def test_version_1_has_other_names(proc: Path, tmp_path: Path) -> None:
    """Version 1: the memory controller's own tree counts, those of other controllers do not."""
    (proc / "self/cgroup").write_text("5:cpu:/box\n4:memory:/box\n0::/\n")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    root = tmp_path / "groups"
    _limit(root / "memory/box", names, str(300 * MIB), 100 * MIB, f"total_inactive_file {20 * MIB}\n")
    _limit(root / "memory", names, str(1 << 62), 100 * MIB, "")
    (root / "cpu/box").mkdir(parents=True)
    assert available_bytes(proc=proc, cgroups=root) == 220 * MIB


def test_this_process_has_memory() -> None:
    """On the machine at hand there are figures, and they make sense."""
    assert 0 < resident_bytes() <= peak_bytes()
    free = available_bytes()
    assert free is not None
    assert free > 0
