"""One of our services as a child process: started, read line by line, asked whether it is ready."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from inferq.childprocess import ChildProcess
from inferq.errors import OperatorError
from inferq.probe import ask, reachable
from inferq.sparsely import Sparsely

OnLine = Callable[[str, str], None]
"""Called with the service's name and a line that it wrote."""

STOP_GRACE_S: Final = 12.0
_POLL_S: Final = 0.05
_REPORT_EVERY_S: Final = 5.0
_REPORT_MOST_S: Final = 60.0
_LONGEST_LINE: Final = 16_384
_DRAIN_S: Final = 1.0
_QUIET_S: Final = 0.1


class _Liveness(msgspec.Struct):
    status: str
    reason: str = ""


class ServiceChild:
    """A service that listens on ``host:port`` and answers `/readyz` there.

    Its output comes through one pipe for all its lives, so that neither a restart nor a grandchild that keeps
    the pipe open loses or delays anything. ``cures`` says what to do, by the part that `/readyz` says is not well.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        host: str,
        port: int,
        record: Path,
        on_line: OnLine,
        cures: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.host, self.port = reachable(host), port
        self._argv, self._env = tuple(argv), dict(env)
        self._record = record
        self._on_line = on_line
        self._cures = cures or {}
        self._last_line = ""
        self._news = asyncio.Event()
        self._child: ChildProcess | None = None
        self._write_end: int | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None before the first start."""
        return None if self._child is None else self._child.pid

    async def start(self) -> None:
        """Start it, or start it again after its death; it is not ready yet."""
        if self._child is None:
            read_end, self._write_end = os.pipe()
            self._reading = asyncio.create_task(self._read(read_end), name=f"{self.name}-output")
            self._child = ChildProcess(record=self._record, output=self._write_end)
        await self._child.start(self._argv, env=self._env, folder=Path.cwd())

    async def ready(self, within_s: float, say: Callable[[str], None]) -> None:
        """Wait until it is ready, saying what it lacks after a few seconds, then ever more rarely.

        Raises:
            OperatorError: it ended, with its own last line, or was not ready in time.
        """
        begun = time.monotonic()
        # Most starts take less than the first distance.
        telling = Sparsely(first_s=_REPORT_EVERY_S, most_s=_REPORT_MOST_S)
        telling.due(begun)
        while True:
            if self._child is None or not self._child.running:
                raise OperatorError(await self._obituary())
            answer = await ask(self.host, self.port, "/readyz")
            if answer.ok:
                return
            now = time.monotonic()
            if now - begun > within_s:
                raise OperatorError(
                    f"{self.name} was not ready within {within_s:.0f} s: {self._with_cure(answer.complaint)}"
                )
            if telling.due(now):
                say(f"{self.name} is not ready yet ({answer.complaint})")
            await asyncio.sleep(_POLL_S)

    async def stuck(self) -> str:
        """Return why it is stuck, by its own word; nothing while it is not, or does not answer."""
        answer = await ask(self.host, self.port, "/healthz")
        try:
            said = msgspec.json.decode(answer.body, type=_Liveness)
        except msgspec.DecodeError:
            return ""
        return said.reason if answer.status == 503 and said.status == "stuck" else ""

    def _with_cure(self, complaint: str) -> str:
        cure = next((cure for part, cure in self._cures.items() if f"{part}: " in complaint), "")
        return f"{complaint}: {cure}" if cure else complaint

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        if self._child is None:
            raise RuntimeError("not started")
        return await self._child.wait()

    async def stop(self) -> None:
        """Stop it: SIGTERM, then SIGKILL after 12 s; what it still says is passed on."""
        if self._child is None:
            return
        try:
            await self._child.stop(STOP_GRACE_S)
        finally:
            self._child.kill()
            await self._close()

    async def _close(self) -> None:
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None
        if self._reading is not None:
            # The end of the pipe comes with the last process that holds it, and one may live on.
            await asyncio.wait({self._reading}, timeout=_DRAIN_S)
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read(self, read_end: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            try:
                rest = b""
                while chunk := await reader.read(65_536):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > _LONGEST_LINE:
                        lines, rest = [*lines, rest], b""
                    for line in lines:
                        self._pass_on(line)
                self._pass_on(rest)
            finally:
                transport.close()

    def _pass_on(self, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode(errors="replace").rstrip()
        if text:
            self._last_line = text
            self._news.set()
            self._on_line(self.name, text)

    async def _obituary(self) -> str:
        """Say how it ended at its start: in its own words, where it knew why."""
        code = await self.wait()
        # Its last words may still be on their way through the pipe.
        with contextlib.suppress(TimeoutError):
            while True:
                self._news.clear()
                async with asyncio.timeout(_QUIET_S):
                    await self._news.wait()
        last = self._last_line or "it said nothing"
        return (
            last
            if code == 2 and self._last_line
            else f"{self.name} ended at its start with {how_it_ended(code)}: {last}"
        )


def how_it_ended(code: int) -> str:
    """Say an exit code in words: the signal where there was one."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def service_argv(module: str) -> list[str]:
    """Return the command that runs one of our services."""
    root = Path(__file__).parent.parent
    # Installed, the services must not be shadowed by folders of the same name where the operator happens to stand.
    apart = [] if root == Path.cwd() else ["-P"]
    return [sys.executable, *apart, "-m", module]
