"""A private RabbitMQ node: the installed program with home, ports, name and password of its own, on loopback.

Debian's ``/usr/sbin/rabbitmq-server`` switches to the system's user and folders; the script behind it does
not, and every path that it would take from ``/etc`` or ``/var`` is set: the system's node is never touched.
"""

import asyncio
import base64
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from inferq.childprocess import ChildProcess
from inferq.errors import OperatorError
from inferq.folderlock import FolderLock
from inferq.ports import LOOPBACK, free_ports, require_port
from inferq.rabbitfolder import RabbitFolder, RabbitPorts

_EPMD_WITHIN_S = 5.0
# RabbitMQ 3.10 closes its stores within half a second and then idles for five; quorum queues survive a kill.
_STOP_GRACE_S = 3.0
_EPMD_GRACE_S = 1.0
_POLL_S = 0.1
_PROBE_TIMEOUT_S = 2.0
_SCRIPTS = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/usr/local/lib/rabbitmq/bin/rabbitmq-server",
)
_EXTRA_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
_CURE = "install it (apt-get install rabbitmq-server) or give a broker with INFERQ_BROKER_URL=amqp://…"


class PrivateRabbit:
    """A RabbitMQ node of our own on 127.0.0.1 with its management UI, its data in one folder."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        management_port: int | None = None,
        ready_within_s: float = 60.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = RabbitFolder(data_dir.absolute())
        self._wanted = (port, management_port)
        self._ready_within_s = ready_within_s
        self._on_progress = on_progress
        path = self._folder.path
        self._lock = FolderLock(path)
        self._node = ChildProcess(record=path / "node.pid", output=self._folder.console)
        self._epmd = ChildProcess(record=path / "epmd.pid", output=path / "epmd.log")
        self._chosen: RabbitPorts | None = None

    @property
    def port(self) -> int:
        """The AMQP port; free ports are chosen at the first start and kept from then on."""
        return self._ports.amqp

    @property
    def url(self) -> str:
        """``amqp://user:password@127.0.0.1:port/``: a secret, not for logs."""
        user, password = self.management_credentials
        return f"amqp://{user}:{password}@{LOOPBACK}:{self.port}/"

    @property
    def management_url(self) -> str:
        """``http://127.0.0.1:port/``, without credentials."""
        return f"http://{LOOPBACK}:{self._ports.management}/"

    @property
    def management_credentials(self) -> tuple[str, str]:
        """User and password of the management UI and of AMQP: a secret, not for logs."""
        return self._folder.identity.user, self._folder.identity.password

    @property
    def pid(self) -> int | None:
        """The process id of the Erlang machine, or None before the first start."""
        return self._node.pid

    async def start(self) -> None:
        """Start, or start again after a death; return once all of it answers; raises OperatorError."""
        if self._node.running:
            raise RuntimeError("the private RabbitMQ runs already")
        script, epmd = find_rabbitmq_server(), _find_epmd()
        held_before = self._lock.held
        self._lock.acquire()
        try:
            await self._node.end_orphan()
            await self._epmd.end_orphan()
            self._choose_ports()
            self._folder.load()
            self._folder.write(self._ports)
            await self._start_epmd(epmd)
            self._say("starting a private RabbitMQ, which takes about ten seconds")
            begun = time.monotonic()
            await self._node.start([str(script)], env=self._folder.env(self._ports), folder=self._folder.path)
            await self._ready(begun)
            self._say(f"the private RabbitMQ is up after {time.monotonic() - begun:.0f} s")
        except BaseException:
            self._kill()
            # A supervisor's restart keeps the folder for its next try.
            if not held_before:
                self._lock.release()
            raise

    async def stop(self) -> None:
        """Stop it: SIGTERM, then SIGKILL after 3 s; gives the folder back."""
        try:
            await self._node.stop(_STOP_GRACE_S)
            await self._epmd.stop(_EPMD_GRACE_S)
        finally:
            self._kill()
            self._lock.release()

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        return await self._node.wait()

    def has_on_disk(self, queue: str) -> bool:
        """Say whether a quorum queue of vhost ``/`` is in the node's register on disk.

        RabbitMQ confirms a new queue, and messages in it, up to three seconds before it writes the register;
        killed before that, it comes back with a queue that has no leader and answers nothing.
        """
        return self._folder.has_on_disk(queue)

    @property
    def _ports(self) -> RabbitPorts:
        if self._chosen is None:
            raise RuntimeError("not started")
        return self._chosen

    def _say(self, text: str) -> None:
        if self._on_progress is not None:
            self._on_progress(text)

    def _kill(self) -> None:
        self._node.kill()
        self._epmd.kill()

    def _choose_ports(self) -> None:
        if self._chosen is None:
            spare = free_ports(4)
            port, management_port = self._wanted
            self._chosen = RabbitPorts(
                amqp=port or spare[0],
                management=management_port or spare[1],
                distribution=spare[2],
                epmd=spare[3],
            )
        for number in (self._ports.amqp, self._ports.management):
            require_port(number, cure="choose another one for RabbitMQ")

    async def _start_epmd(self, epmd: Path) -> None:
        if self._epmd.running:
            return
        await self._epmd.start(
            [str(epmd), "-address", LOOPBACK, "-port", str(self._ports.epmd)],
            env=self._folder.env(self._ports),
            folder=self._folder.path,
        )
        deadline = time.monotonic() + _EPMD_WITHIN_S
        while self._epmd.running and time.monotonic() < deadline:
            # The request for the names it knows; the answer begins with its port.
            if await _answers(self._ports.epmd, b"\x00\x01n", self._ports.epmd.to_bytes(4)):
                return
            await asyncio.sleep(_POLL_S)
        raise OperatorError(f"Erlang's epmd did not start on {self._ports.epmd}: {self._epmd.last_line()}")

    async def _ready(self, begun: float) -> None:
        ports, deadline = self._ports, begun + self._ready_within_s
        user, password = self.management_credentials
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        # Our own random password tells this node from another server that took the port.
        ask = f"GET /api/whoami HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Basic {token}\r\n\r\n".encode()
        while time.monotonic() < deadline:
            if not self._node.running:
                raise OperatorError(f"the private RabbitMQ ended at its start: {self._folder.complaint()}")
            # AMQP opens last in the boot. A connection that says nothing leaves no warning in the log.
            amqp_up = await _answers(ports.amqp, b"", b"")
            if amqp_up and await _answers(ports.management, ask, b"HTTP/1.1 200"):
                return
            await asyncio.sleep(_POLL_S)
        raise OperatorError(
            f"the private RabbitMQ was not up within {self._ready_within_s:.0f} s: {self._folder.complaint()}"
        )


def find_rabbitmq_server() -> Path:
    """Return the script that starts RabbitMQ as the user who calls it; raises OperatorError without one."""
    search_path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_EXTRA_FOLDERS))
    named = shutil.which("rabbitmq-server", path=search_path)
    candidates = [Path(script) for script in _SCRIPTS]
    if named is not None:
        real = Path(named).resolve()
        # Debian's name is a link to a wrapper that switches the user; the script lies beside the wrapper.
        candidates.append(real.with_name("rabbitmq-server"))
    for script in candidates:
        if os.access(script, os.X_OK):
            return script
    raise OperatorError(f"rabbitmq-server is not installed; {_CURE}")


def _find_epmd() -> Path:
    named = shutil.which("epmd")
    if named is not None:
        return Path(named)
    erl = shutil.which("erl")
    if erl is not None:
        for program in sorted(Path(erl).resolve().parent.parent.glob("erts-*/bin/epmd")):
            return program
    raise OperatorError(f"Erlang's epmd, which rabbitmq-server needs, is not installed; {_CURE}")


async def _answers(port: int, send: bytes, expect: bytes) -> bool:
    """Say whether a server on loopback takes a connection and, sent this, begins its answer so."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(send)
                return not expect or await reader.readexactly(len(expect)) == expect
            finally:
                writer.close()
    except (OSError, TimeoutError, EOFError):
        return False
