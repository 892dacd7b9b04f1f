"""TCP ports on this machine: is one taken, which are free.

Free ports are looked for outside the kernel's ephemeral range. A port inside that range can be handed to any
outgoing connection while its server is down, even to a client that is reconnecting to that very server (it
then connects to itself), and the server could not come back on it.

Between the moment when a port is found free and the one when its server listens, another process may look as
well. So whoever finds one holds a UDP socket of the same number on loopback, which keeps no TCP server off it,
and leaves out those that others hold.
"""

import errno
import os
import random
import socket
from collections import deque
from collections.abc import Collection
from pathlib import Path

from inferq.errors import OperatorError

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 15_000
_HIGHEST_PORT = 65_535
_DEFAULT_EPHEMERAL = (32_768, 60_999)
_MIN_CANDIDATES = 1_000
_MAX_PROBES = 500
# Far more than the servers of one process that have yet to listen.
_MAX_HELD = 64
_EPHEMERAL_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")

# Descriptors of the sockets that hold what was found, the oldest first.
_held: deque[int] = deque()


def port_taken(port: int, host: str = LOOPBACK) -> bool:
    """Say whether ``host:port`` is in use; raises OSError when ``host`` is not of this machine."""
    try:
        with _bound(port, host) as listener:
            # Alone, bind can succeed beside another socket that has bound and not yet called listen.
            listener.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return True
        raise
    return False


def require_port(port: int, host: str = LOOPBACK, *, cure: str) -> None:
    """Raise OperatorError, one line ending in ``cure``, unless a server could listen on ``host:port`` now."""
    try:
        taken = port_taken(port, host)
    except PermissionError:
        raise OperatorError(f"port {port} on {host} needs rights that this user lacks; {cure}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise OperatorError(f"cannot listen on {host} port {port}: {reason}; {cure}") from error
    if taken:
        raise OperatorError(f"port {port} on {host} is taken by another process; {cure}")


def claim_shared_port(port: int, host: str = LOOPBACK, *, cure: str) -> socket.socket:
    """Hold ``host:port`` for processes of ours that share it; the socket that is returned holds it until closed.

    It takes no connections. While it is open, whoever does not mean to share finds the port taken, also while none of
    those that share it lives. Raises OperatorError, as `require_port` does.
    """
    # Binding to share would succeed beside other servers of this user that share theirs.
    require_port(port, host, cure=cure)
    try:
        claim = _bound(port, host, shared=True)
    except OSError:
        raise OperatorError(f"port {port} on {host} was just taken by another process; {cure}") from None
    # A socket that does not listen keeps nobody out unless it takes this back.
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return claim


def next_free_port(first: int, host: str = LOOPBACK, *, tries: int = 100, skip: Collection[int] = ()) -> int:
    """Return the first free port from ``first`` upwards; raises OperatorError after ``tries`` taken ones."""
    last = min(first + tries - 1, _HIGHEST_PORT)
    for port in range(first, last + 1):
        if port not in skip and not port_taken(port, host):
            return port
    raise OperatorError(
        f"ports {first} to {last} on {host} are all taken; stop what holds them or choose another port"
    )


def free_port(host: str = LOOPBACK) -> int:
    """Return a port that nothing listens on and that neither outgoing connections nor others will be given."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Return ``count`` different free ports; see `free_port`."""
    candidates = _candidates(ephemeral_range())
    found: list[int] = []
    for port in random.sample(candidates, min(_MAX_PROBES, len(candidates))):
        if len(found) == count:
            break
        if not port_taken(port, host) and _hold(port):
            found.append(port)
    if len(found) < count:
        raise OperatorError(f"no {count} free ports on {host}; stop some of the servers that run here")
    return found


def ephemeral_range() -> tuple[int, int]:
    """Return the first and the last port that this kernel gives to outgoing connections."""
    try:
        first, last = _EPHEMERAL_FILE.read_text().split()
    except OSError:
        return _DEFAULT_EPHEMERAL
    return int(first), int(last)


def _candidates(ephemeral: tuple[int, int]) -> list[int]:
    first, last = ephemeral
    below = [port for port in range(_LOWEST_PORT, _HIGHEST_PORT + 1) if port < first]
    outside = below or [port for port in range(_LOWEST_PORT, _HIGHEST_PORT + 1) if port > last]
    # A machine that hands out nearly every port leaves no choice but to share its range.
    return outside if len(outside) >= _MIN_CANDIDATES else list(range(_LOWEST_PORT, _HIGHEST_PORT + 1))


def _hold(port: int) -> bool:
    """Hold a free port against others who look for one, until many more are held; False when another holds it."""
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind((LOOPBACK, port))
    except OSError as error:
        held.close()
        # Where that cannot be had at all, a port is as good without it.
        return error.errno != errno.EADDRINUSE
    if len(_held) == _MAX_HELD:
        os.close(_held.popleft())
    _held.append(held.detach())
    return True


def _bound(port: int, host: str, *, shared: bool = False) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # What servers set themselves: connections of a dead server that linger in TIME_WAIT do not count.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
