"""One engine process and the connection to it: questions, runs under way, and how it was lost.

Rules:

1. Answers come in any order and find their run by its id. A run whose caller was cancelled stays under way, so that its
   answer goes to nobody else and a hang in it is noticed.
2. A run that is not answered within its time has hung: the process is killed, the run is to blame, and the others were
   spared. A process that ends by itself is blamed on its run when there was one, else on nobody for sure.
3. A link is lost once and never comes back; the engine opens another.
"""

import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from batcher.frames import batcher_reader, encode
from batcher.wire import Arrange, FromEngine, Load, Ran, RanTensors, Run, RunFailed, RunTensors, WireError
from inferq.background import end, spawn
from inferq.childprocess import inherited_env
from inferq.errors import InferqError

RECEIVE_BYTES: Final = 1 << 18
# A dead process's last words have been read long before that.
LAST_WORDS_S: Final = 2.0
# When the batcher itself was held up for so long, what the engine said meanwhile has not been read yet.
HELD_UP_S: Final = 0.1


class Blame(Enum):
    """Whether a run is what took the engine down."""

    SURE = "sure"
    """It was the only one, or it did not answer within its time."""
    UNSURE = "unsure"
    """The process ended while several were under way."""
    SPARED = "spared"
    """Another one hung, or the engine was stopped."""


class BatchRaised(InferqError):
    """The model raised on this batch; the engine lives on."""


class OutOfMemory(BatchRaised):
    """The device had no memory for this batch; the engine lives on, and a smaller one may fit."""


class TooLong(BatchRaised):
    """No frame holds this batch; the engine was not asked, and a smaller one may fit."""


class EngineLost(InferqError):
    """The engine died while this batch was on it, or was killed because a batch hung (``hung``)."""

    def __init__(self, detail: str, *, hung: bool, blame: Blame) -> None:
        super().__init__(detail)
        self.hung, self.blame = hung, blame


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """A run that the process has and has not answered."""

    rows: int
    answer: asyncio.Future[Ran | RanTensors]
    timer: asyncio.TimerHandle


class EngineLink:
    """Made by `open_link`. ``lost`` is called once, when no run can be sent any more."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: Callable[[], None],
    ) -> None:
        self.process = process
        self._reader, self._writer, self._on_lost = reader, writer, lost
        self._flights: dict[int, _Flight] = {}
        self._asked: deque[asyncio.Future[FromEngine]] = deque()
        self._lost = False
        self._reading = spawn(self._read(), "engine-reader")

    async def ask(self, message: Load | Arrange, *, timeout_s: float) -> FromEngine:
        """Ask what is no run and return the answer.

        Raises:
            TimeoutError: there is none within the time; the process is killed.
            EngineLost: the process ended.
        """
        self._check()
        answer: asyncio.Future[FromEngine] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._writer.write(encode(message))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            self._lose("the engine did not answer in time", hung=True, spare=True)
            raise

    async def run(self, run: Run | RunTensors, *, timeout_ms: float) -> Ran | RanTensors:
        """Send a run and return its answer.

        Raises:
            BatchRaised: the model raised; `TooLong` when no frame holds the run.
            EngineLost: the process died or was killed.
        """
        self._check()
        try:
            frame = encode(run)
        except WireError as error:
            raise TooLong(str(error)) from None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Ran | RanTensors] = loop.create_future()
        timer = self._await_answer(run.run_id, timeout_ms)
        rows = run.rows if isinstance(run, Run) else len(run.rows)
        self._flights[run.run_id] = _Flight(rows=rows, answer=answer, timer=timer)
        # What waits to be written is bounded by the caller's lanes, and its time runs already.
        self._writer.write(frame)
        return await answer

    async def ended(self) -> int:
        """Wait until the process has ended and all that it said is read; return its exit status."""
        status = await self.process.wait()
        await asyncio.wait([self._reading], timeout=LAST_WORDS_S)
        self._lose("the engine process ended")
        return status

    async def close(self) -> None:
        """End the process and the connection."""
        self._lose("the engine was stopped", spare=True)
        await end(self._reading)
        self._writer.close()
        await self.process.wait()

    def _check(self) -> None:
        if self._lost:
            raise EngineLost("the engine process is gone", hung=False, blame=Blame.SPARED)

    async def _read(self) -> None:
        """Hand answers to those who wait for them, until the stream ends."""
        frames, detail = batcher_reader(), "the engine process ended"
        try:
            while data := await self._reader.read(RECEIVE_BYTES):
                for message in frames.feed(data):
                    self._take(message)
        except (OSError, WireError) as error:
            detail = f"the engine process ended ({type(error).__name__}: {error})"
        self._lose(detail)

    def _take(self, message: FromEngine) -> None:
        if not isinstance(message, Ran | RanTensors | RunFailed):
            if not self._asked:
                raise WireError("an answer that nobody asked for")
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_result(message)
            return
        flight = self._flights.get(message.run_id)
        if flight is None or (not isinstance(message, RunFailed) and message.rows != flight.rows):
            raise WireError("an answer that fits no run")
        del self._flights[message.run_id]
        flight.timer.cancel()
        if flight.answer.done():
            return
        if isinstance(message, RunFailed):
            kind = OutOfMemory if message.out_of_memory else BatchRaised
            flight.answer.set_exception(kind(message.detail))
        else:
            flight.answer.set_result(message)

    def _await_answer(self, run_id: int, timeout_ms: float) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + timeout_ms / 1000
        return loop.call_at(due_s, self._overdue, run_id, timeout_ms, due_s)

    def _overdue(self, run_id: int, timeout_ms: float, due_s: float) -> None:
        if asyncio.get_running_loop().time() - due_s > HELD_UP_S:
            # Frozen or starved: so may the engine have been, and its answer may lie there. It has its time once more.
            self._flights[run_id] = replace(
                self._flights[run_id], timer=self._await_answer(run_id, timeout_ms)
            )
            return
        self._lose(f"no answer within {timeout_ms / 1000:g} s", hung=True, culprit=run_id)

    def _lose(
        self, detail: str, *, hung: bool = False, culprit: int | None = None, spare: bool = False
    ) -> None:
        """Kill the process, if it lives, and fail all that is under way."""
        if self._lost:
            return
        self._lost = True
        if self.process.returncode is None:
            _kill(self.process)
        flights, self._flights = self._flights, {}
        for run_id, flight in flights.items():
            if spare or culprit is not None:
                blame = Blame.SURE if run_id == culprit else Blame.SPARED
            else:
                blame = Blame.SURE if len(flights) == 1 else Blame.UNSURE
            flight.timer.cancel()
            if not flight.answer.done():
                flight.answer.set_exception(EngineLost(detail, hung=hung, blame=blame))
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(EngineLost(detail, hung=hung, blame=Blame.SPARED))
        self._asked.clear()
        self._on_lost()


async def open_link(lost: Callable[[], None]) -> EngineLink:
    """Start an engine process and connect to it."""
    ours, theirs = socket.socketpair()
    process = None
    try:
        with theirs:
            # Without our settings: the engine gets all it needs in one message, and no secrets.
            process = await asyncio.create_subprocess_exec(
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
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=RECEIVE_BYTES)
    except BaseException:
        ours.close()
        if process is not None and process.returncode is None:
            _kill(process)
        raise
    return EngineLink(process, reader, writer, lost)


def _kill(process: asyncio.subprocess.Process) -> None:
    # Not its own `kill`, which asks for the status first: of one that is dead already asyncio would not learn it then.
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
