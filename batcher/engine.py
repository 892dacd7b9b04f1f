"""The engine as the batcher sees it: a process that runs batches, supervised and restarted.

A batch that takes the process down, or holds it longer than it may, is an outcome like any other; the process is
replaced while the batcher decides what becomes of the jobs.
"""

import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from batcher.wire import (
    HEADER_BYTES,
    FromEngine,
    Load,
    Loaded,
    LoadFailed,
    Logits,
    Ran,
    Run,
    RunFailed,
    WireError,
    batcher_reader,
    body_bytes,
    encode,
    pack_run,
)
from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.childprocess import inherited_env
from inferq.errors import InferqError, OperatorError

# A large model on a cold disk takes its time; past this the start has failed.
LOAD_TIMEOUT_S: Final = 300.0
# Restarts that fail in a row before the batcher gives up: the model is gone, or its device is.
RESTART_TRIES: Final = 5
_GONE: Final = (OSError, EOFError, asyncio.IncompleteReadError, WireError)

_log = structlog.get_logger(__name__)


class BatchRaised(InferqError):
    """The model raised on this batch; the engine lives on."""


class EngineLost(InferqError):
    """The engine died on this batch, or was killed because it hung."""

    def __init__(self, detail: str, *, hung: bool) -> None:
        super().__init__(detail)
        self.hung = hung


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a batch gave: logits (rows, labels), how long the model took, and for how many tokens, padding counted."""

    logits: Logits
    compute_ms: float
    computed_tokens: int


class Engine:
    """One engine process after another; runs one batch at a time.

    ``timeout_ms`` is how long a batch may take before the process counts as hung.
    """

    def __init__(self, load: Load, *, timeout_ms: int, pad_id: int) -> None:
        self._load, self._timeout_s, self._pad_id = load, timeout_ms / 1000, pad_id
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = batcher_reader()
        self._ids = count(1)
        self._up = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self.restarts = 0

    @property
    def ready(self) -> bool:
        """Whether the model is loaded and the process lives."""
        return self._up.is_set()

    @property
    def pid(self) -> int | None:
        """Process id of the present engine."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> Loaded:
        """Start the process and load the model; afterwards it is kept alive.

        Raises:
            OperatorError: the model cannot be loaded.
        """
        loaded = await self._spawn()
        self._keeper = spawn(self._keep(), "engine-keeper")
        return loaded

    async def stop(self) -> None:
        """End the process."""
        await end(self._keeper)
        await self._end()

    async def run(self, rows: Sequence[Sequence[int]]) -> Answer:
        """Run one batch of token id rows; waits for an engine that is being restarted.

        Raises:
            BatchRaised: the model raised.
            EngineLost: the process died or hung; a new one is on its way.
        """
        await self._up.wait()
        run = pack_run(next(self._ids), rows, pad_id=self._pad_id)
        process = self._process
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._exchange(run)
        except TimeoutError:
            self._kill(process)
            raise EngineLost(f"no answer within {self._timeout_s:g} s", hung=True) from None
        except asyncio.CancelledError:
            # Its answer would be taken for the next batch's.
            self._kill(process)
            raise
        except _GONE as error:
            self._kill(process)
            raise EngineLost(f"the engine process ended ({type(error).__name__})", hung=False) from None
        if isinstance(answer, RunFailed):
            raise BatchRaised(answer.detail)
        if not isinstance(answer, Ran) or answer.run_id != run.run_id or answer.rows != run.rows:
            self._kill(process)
            raise EngineLost("the engine answered out of turn", hung=False)
        try:
            logits = answer.matrix()
        except WireError as error:
            self._kill(process)
            raise EngineLost(str(error), hung=False) from None
        return Answer(logits=logits, compute_ms=answer.compute_ms, computed_tokens=answer.computed_tokens)

    async def _keep(self) -> None:
        """Replace the process whenever it ends."""
        backoff = Backoff(first_s=0.1, most_s=10.0)
        loop = asyncio.get_running_loop()
        while True:
            assert self._process is not None
            born = loop.time()
            status = await self._process.wait()
            self._up.clear()
            if loop.time() - born > 60:
                backoff.reset()
            _log.warning("engine.ended", status=status)
            for left in reversed(range(RESTART_TRIES)):
                self.restarts += 1
                try:
                    await self._spawn()
                except OperatorError as error:
                    _log.error("engine.restart_failed", error=str(error), tries_left=left)
                    if not left:
                        # The jobs that we hold are better off with another batcher.
                        raise
                    await asyncio.sleep(backoff.next_s())
                else:
                    _log.info("engine.restarted", pid=self.pid, restarts=self.restarts)
                    break

    async def _spawn(self) -> Loaded:
        await self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            # Without our settings: the engine gets all it needs in one message, and no secrets.
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "batcher.engine_process",
                "--fd",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                env=inherited_env(),
            )
        ours.setblocking(False)
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._frames = batcher_reader()
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                answer = await self._exchange(self._load)
        except TimeoutError:
            await self._end()
            raise OperatorError(f"the model did not load within {LOAD_TIMEOUT_S:g} s") from None
        except _GONE as error:
            await self._end()
            raise OperatorError("the engine process ended while it loaded the model") from error
        if isinstance(answer, LoadFailed):
            await self._end()
            raise OperatorError(answer.detail)
        if not isinstance(answer, Loaded):
            await self._end()
            raise OperatorError("the engine process answered out of turn")
        self._up.set()
        return answer

    async def _exchange(self, message: Load | Run) -> FromEngine:
        if self._reader is None or self._writer is None:
            raise EOFError
        self._writer.write(encode(message))
        await self._writer.drain()
        header = await self._reader.readexactly(HEADER_BYTES)
        return self._frames.decode(await self._reader.readexactly(body_bytes(header)))

    def _kill(self, process: asyncio.subprocess.Process | None) -> None:
        """End a process now, unless it was replaced already; the keeper sees it and starts another."""
        if process is None or process is not self._process:
            return
        self._up.clear()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()

    async def _end(self) -> None:
        self._up.clear()
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.close()
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
