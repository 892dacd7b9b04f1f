"""A baseline as a child process for as long as it is measured."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq.childprocess import ChildProcess, inherited_env
from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port

READY_WITHIN_S: Final = 30.0
GRACE_S: Final = 8.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Served:
    """Where it is, and its process."""

    url: str
    pid: int


@asynccontextmanager
async def served(module: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Served]:
    """Run ``python -m module --port P`` on a free port; it takes connections when this is entered.

    Raises:
        OperatorError: it ended, or took none in time; with its last line.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="inferq-bench-") as folder:
        child = ChildProcess(record=Path(folder) / "pid", output=Path(folder) / "log")
        argv = [sys.executable, "-m", module, "--port", str(port)]
        await child.start(argv, env=inherited_env() | dict(env or {}), folder=Path.cwd())
        try:
            await _listening(module, child, port)
            assert child.pid is not None, "it was started"
            yield Served(url=f"http://{LOOPBACK}:{port}", pid=child.pid)
        finally:
            await child.stop(GRACE_S)


async def _listening(module: str, child: ChildProcess, port: int) -> None:
    until_s = asyncio.get_running_loop().time() + READY_WITHIN_S
    while True:
        if not child.running or asyncio.get_running_loop().time() > until_s:
            raise OperatorError(f"{module} does not listen: {child.last_line()}")
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            await asyncio.sleep(_POLL_S)
        else:
            writer.close()
            return
