"""Lines of standard input for an event loop, whatever it is: a terminal, a pipe, a file."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

_WAITING_LINES: Final = 64
# Beyond the longest text by far: the rest of such a line would be refused with its beginning.
_LONGEST_LINE: Final = 1_048_576


async def stdin_lines() -> AsyncIterator[str]:
    """Yield the lines without their ends, no faster than they are taken.

    The reading thread is a daemon, since one that waits for a person's next line could not be ended; it reads the
    descriptor itself, since the lock of `sys.stdin` must not be held when the interpreter ends.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_LINES)

    def put(line: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    def read() -> None:
        descriptor, rest = sys.stdin.fileno(), b""
        while chunk := os.read(descriptor, 65_536):
            *whole, rest = (rest + chunk).split(b"\n")
            rest = rest[:_LONGEST_LINE]
            for line in whole:
                put(line)
        if rest:
            put(rest)
        put(None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while (line := await lines.get()) is not None:
        # What is no UTF-8 is kept as it is, for the API to refuse.
        yield line.removesuffix(b"\r").decode(errors="surrogateescape")
