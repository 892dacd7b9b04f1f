"""What CPU processes use, from the kernel's count, and what everything else on the machine does meanwhile."""

from collections.abc import Mapping

import psutil


class CpuMeter:
    """Counts user and system time of processes by name, their descendants included.

    Descendants are looked up once, at its making, since that takes milliseconds: whoever starts children later is
    counted without them. `everything_s` is the whole machine, this process and time that a hypervisor took included.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._families = {name: _family(pid) for name, pid in pids.items()}
        self.restart()

    def restart(self) -> None:
        """Count from now."""
        self._begun, self._begun_all = self._used_s(), _busy_s()

    def everything_s(self) -> float:
        """Return what was used by all since the start of the count, in seconds."""
        return _busy_s() - self._begun_all

    def seconds(self) -> dict[str, float]:
        """Return what each used since the start of the count, in seconds."""
        used = self._used_s()
        return {name: used[name] - begun for name, begun in self._begun.items()}

    def _used_s(self) -> dict[str, float]:
        return {name: sum(map(_of_one, family)) for name, family in self._families.items()}


def _busy_s() -> float:
    times = psutil.cpu_times()
    # Guests are in user time already; not every system counts the rest.
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in names))


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _of_one(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # Ended: what it used is lost.
    return float(times.user + times.system)
