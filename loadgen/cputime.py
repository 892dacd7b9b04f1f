"""What CPU processes use, from the kernel's count, and what everything else on the machine does meanwhile.

A process's time is read from its own CPU clock where the system has one: the table that psutil reads counts in
hundredths of a second, so that fifty short requests come to nothing there.
"""

import ctypes
import errno
import time
from collections.abc import Callable, Mapping

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
        return _own_clock(process.pid)
    except OSError:
        pass  # Ended, or a system without such clocks; the table tells which.
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # Ended: what it used is lost.
    return float(times.user + times.system)


def _own_clock(pid: int) -> float:
    """Return what a process and its threads used, ended ones included, in seconds; OSError without such a clock."""
    clock = ctypes.c_int()
    if error := _clock_of(pid, ctypes.byref(clock)):
        raise OSError(error, "no CPU clock of a process")
    return time.clock_gettime(clock.value)


def _nowhere(pid: int, clock: object) -> int:
    return errno.ENOSYS


_clock_of: Callable[..., int] = getattr(ctypes.CDLL(None), "clock_getcpuclockid", _nowhere)
