"""A client or driver in a process of its own that one talks with: lines of JSON both ways, until it is told to end.

What it measures or bears must not share an event loop with whoever steers the run. It ends with its standard input,
so it cannot outlive us.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import msgspec
import uvloop

from inferq.childprocess import inherited_env
from inferq.errors import first_line

LIMIT_BYTES: Final = 64 * 1024 * 1024
END_WITHIN_S: Final = 10.0
Value = TypeVar("Value")
Order = TypeVar("Order")


class Companion:
    """The far end of a conversation."""

    def __init__(self, module: str, process: asyncio.subprocess.Process) -> None:
        self._module, self._process = module, process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, value: Any = None) -> None:
        """Send a line."""
        assert self._process.stdin is not None, "it has a pipe"
        self._process.stdin.write(msgspec.json.encode(value) + b"\n")

    async def hear(self, kind: type[Value], *, within_s: float) -> Value:
        """Return the next line.

        Raises:
            ConnectionError: it ended instead, or said nothing in time.
        """
        assert self._process.stdout is not None, "it has a pipe"
        try:
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise ConnectionError(f"{self._module} said nothing within {within_s:g} s") from None
        if not line:
            raise ConnectionError(f"{self._module}: {await self._last_words()}")
        return msgspec.json.decode(line, type=kind)

    async def _last_words(self) -> str:
        assert self._process.stderr is not None, "it has a pipe"
        with suppress(TimeoutError):
            async with asyncio.timeout(END_WITHIN_S):
                lines = (await self._process.stderr.read()).decode(errors="replace").strip().splitlines()
                return lines[-1] if lines else "it ended without a word"
        return "it says no more"


@asynccontextmanager
async def companion(module: str, order: msgspec.Struct) -> AsyncIterator[Companion]:
    """Run ``python -m module`` and send it its order; it is ended at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited_env(),
        limit=LIMIT_BYTES,
    )
    try:
        one = Companion(module, process)
        one.tell(order)
        yield one
    finally:
        assert process.stdin is not None, "it has a pipe"
        process.stdin.close()
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class Line:
    """This process's end of the conversation."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def say(self, value: Any) -> None:
        """Write a line."""
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
        sys.stdout.buffer.flush()

    async def told(self) -> Any:
        """Return the next line that we are told; raises `EOFError` when whoever started us is gone."""
        line = await self._reader.readline()
        if not line:
            raise EOFError
        return msgspec.json.decode(line)


def converse(kind: type[Order], work: Callable[[Order, Line], Coroutine[Any, Any, None]]) -> int:
    """Take the order and work until the end of the standard input; 1 with one line when that cannot be done."""

    async def run() -> None:
        reader = asyncio.StreamReader(limit=LIMIT_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        order = msgspec.json.decode(await reader.readline(), type=kind)
        await work(order, Line(reader))

    try:
        uvloop.run(run())
    except EOFError:
        return 0
    except (OSError, TimeoutError) as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 1
    return 0
