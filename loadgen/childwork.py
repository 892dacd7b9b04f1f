"""A piece of work in a process of its own: JSON in, JSON out."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from inferq.childprocess import inherited_env

KILL_WAIT_S: Final = 5.0
Value = TypeVar("Value")


async def ask(
    module: str, given: msgspec.Struct, kind: type[Value], *arguments: str, within_s: float
) -> Value:
    """Run ``python -m module``, hand it ``given`` and return its answer; it ends with us, at the latest in time.

    Raises:
        ConnectionError: it failed, or took longer than ``within_s``.
    """
    out = await said(
        [sys.executable, "-m", module, *arguments], msgspec.json.encode(given), within_s=within_s
    )
    return msgspec.json.decode(out, type=kind)


async def said(argv: Sequence[str], given: bytes = b"", *, within_s: float) -> bytes:
    """Run a program and return what it wrote; raises `ConnectionError` as `ask` does."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited_env(),
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate(given)
    except TimeoutError:
        raise ConnectionError(f"{argv[-1]} did not end within {within_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            async with asyncio.timeout(KILL_WAIT_S):
                await process.wait()
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines()
        raise ConnectionError(lines[-1] if lines else f"it ended with status {process.returncode}")
    return out
