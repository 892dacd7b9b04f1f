"""A server that runs as our child and never outlives us.

On Linux the kernel kills it when the thread that started it ends (PR_SET_PDEATHSIG), so start it from the
main thread. A launcher in an interpreter of its own asks for that before it becomes the server: code between
fork and exec is not safe in a process with threads.
Where the kernel cannot do it, a record on disk names the child, and the next start ends it.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

# The launcher restores what Python itself ignores, since ignored signals stay so in the program that follows.
_LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the starter is gone")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
_KILL_WAIT_S = 5.0
_POLL_S = 0.05
_MAX_OUTPUT_BYTES = 1_000_000


class ChildProcess:
    """One server process; started again and again, one at a time, and not bound to an event loop.

    ``output`` is a log file, begun anew past 1 MB, or the descriptor of a pipe, which stays the caller's.
    """

    def __init__(self, *, record: Path, output: Path | int) -> None:
        self._record = record
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None before the first start."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    async def start(self, argv: Sequence[str], *, env: Mapping[str, str], folder: Path) -> None:
        """Run ``argv`` (a full path first) in ``folder``, after ending what an earlier starter left."""
        if self.running:
            raise RuntimeError(f"{argv[0]} runs already")
        await self.end_orphan()
        self._spawn(argv, env, folder)

    async def end_orphan(self) -> None:
        """End what an earlier starter left running, so that its ports are free; spares our own child."""
        if self.running:
            return
        try:
            pid_text, _, identity = self._record.read_text().strip().partition(" ")
            pid = int(pid_text)
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + _KILL_WAIT_S
        # The start time tells the recorded process from a later one with the same id.
        while process_identity(pid) == identity and time.monotonic() < deadline:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            await asyncio.sleep(_POLL_S)
        self._record.unlink(missing_ok=True)

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        process = self._process
        if process is None:
            raise RuntimeError("not started")
        while (code := process.poll()) is None:
            await _exit_noticed(process.pid)
        return code

    async def stop(self, grace_s: float) -> None:
        """Ask it to end, and kill it when it has not after ``grace_s``."""
        if self._process is None:
            return
        if self.running:
            self._process.terminate()
            try:
                async with asyncio.timeout(grace_s):
                    await self.wait()
            except TimeoutError:
                pass
        self.kill()

    def kill(self) -> None:
        """Kill it now and reap it; the last resort of a start that failed or was cancelled."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(_KILL_WAIT_S)
        self._record.unlink(missing_ok=True)

    def last_line(self) -> str:
        """Return the last line that it printed to its log, for an error message."""
        return last_line(self._output) if isinstance(self._output, Path) else ""

    def _spawn(self, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        with self._open_output() as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=folder,
                # A session of its own: Ctrl-C reaches the starter alone, which then stops all in order.
                start_new_session=True,
            )
        identity = process_identity(self._process.pid)
        if identity is not None:
            self._record.write_text(f"{self._process.pid} {identity}\n")

    def _open_output(self) -> BinaryIO:
        if isinstance(self._output, int):
            return os.fdopen(self._output, "wb", closefd=False)
        grown = self._output.exists() and self._output.stat().st_size > _MAX_OUTPUT_BYTES
        return self._output.open("wb" if grown else "ab")


def inherited_env(*without: str) -> dict[str, str]:
    """Return our environment without our settings, which hold secrets, and names that begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("INFERQ_", *without))}


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, cut to 300 characters, or an empty text."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def process_identity(pid: int) -> str | None:
    """Return the boot and the start time of a process that lives (None for one that is gone or a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None
    state, start_ticks = fields[0], fields[19]
    # The main thread is a zombie before the others have ended, and with them lives every open port.
    gone = state in ("Z", "X") and threads <= 1
    return None if gone else f"{boot} {start_ticks}"


def our_child(pid: int) -> bool:
    """Say whether the id is still that of a child of ours, which nobody else can have until it is waited for."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


async def _exit_noticed(pid: int) -> None:
    """Return when our child ``pid`` has probably ended; the caller polls."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        # No pidfd on this system: look again soon.
        await asyncio.sleep(_POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
