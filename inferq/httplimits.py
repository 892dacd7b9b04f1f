"""What one connection, and all of them together, may ask of an HTTP server."""

import resource
from dataclasses import dataclass, field
from typing import Final

MOST_CONNECTIONS: Final = 10_000
# For Redis, the broker, the engine, files, and the few connections beyond the limit that are read for probes.
RESERVED_FILES: Final = 128


def connections_within(files: int) -> int:
    """Return how many connections a process may hold that may open ``files`` files; at least one."""
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files - RESERVED_FILES))


def _connections() -> int:
    return connections_within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """The bounds of a server; `docs/architecture.md` says what happens at each."""

    head_bytes: int = 16 * 1024
    head_s: float = 10.0
    body_s: float = 20.0
    # How long a client may leave an answer untouched that no longer fits into the buffers.
    unread_s: float = 30.0
    # A refused sender is listened to for so long and so much, so that it gets to read why.
    linger_s: float = 2.0
    linger_bytes: int = 1024 * 1024
    # How long a server that stops waits for requests that have begun to come; less than it waits for their answers.
    stop_s: float = 2.0
    pipelined_requests: int = 32
    connections: int = field(default_factory=_connections)
    # Connections beyond the limit that are read, so that probes are answered in a crowd.
    crowd_connections: int = 32
    sweep_s: float = 1.0
