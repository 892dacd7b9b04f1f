"""Which processes of this machine listen on which ports, as far as the system tells this user."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, kw_only=True)
class Listener:
    """A process that listens; ``pid`` is None where it is another user's and may not be seen.

    ``parents`` are the ids of those that it stems from, its own included.
    """

    address: str
    port: int
    pid: int | None
    name: str
    parents: frozenset[int] = frozenset()

    @property
    def who(self) -> str:
        """Name it for people."""
        return "a process of another user" if self.pid is None else f"{self.name} (process {self.pid})"


def listeners(ports: Collection[int]) -> Mapping[int, list[Listener]]:
    """Return who listens on each of the ports, on whatever address."""
    found: dict[int, list[Listener]] = {port: [] for port in ports}
    for one in psutil.net_connections("tcp"):
        if one.status != psutil.CONN_LISTEN or not one.laddr:
            continue
        address, port = one.laddr.ip, one.laddr.port
        if port in found:
            listener = _listener(address, port, one.pid)
            if listener not in found[port]:
                found[port].append(listener)
    return found


def _listener(address: str, port: int, pid: int | None) -> Listener:
    try:
        process = psutil.Process(pid) if pid is not None else None
        if process is None:
            return Listener(address=address, port=port, pid=None, name="")
        parents = frozenset({process.pid, *(parent.pid for parent in process.parents())})
        return Listener(address=address, port=port, pid=pid, name=_name(process), parents=parents)
    except psutil.Error:
        return Listener(address=address, port=port, pid=pid, name="it has just ended")


def _name(process: psutil.Process) -> str:
    """Return its name, and of Python the module that runs: a whole command line may hold secrets."""
    name, words = process.name(), process.cmdline()
    if name.startswith("python") and "-m" in words[:-1]:
        return f"{name} -m {words[words.index('-m') + 1]}"
    return name
