"""The engine as the batcher sees it: a process that runs several batches at a time, supervised and restarted.

A batch that takes the process down, or holds it longer than it may, is an outcome like any other; the process is
replaced, loaded and arranged as it was, while the batcher decides what becomes of the jobs.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from batcher.engine_link import BatchRaised, Blame, EngineLink, EngineLost, OutOfMemory, TooLong, open_link
from batcher.layout import Layout, LayoutRefused
from batcher.shapes import EXACT, Shapes
from batcher.wire import (
    Arrange,
    Arranged,
    ArrangeFailed,
    Load,
    Loaded,
    LoadFailed,
    Logits,
    Ran,
    RanTensors,
    WireError,
    pack_run,
    pack_tensors,
)
from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.errors import OperatorError
from inferq.tensors.tensor import Tensor

__all__ = ["Answer", "BatchRaised", "Blame", "Engine", "EngineLost", "OutOfMemory", "TensorAnswer", "TooLong"]

# A large model on a cold disk takes its time; past this the start has failed.
LOAD_TIMEOUT_S: Final = 300.0
# Restarts that fail in a row before the batcher gives up: the model is gone, or its device is.
RESTART_TRIES: Final = 5
# What an engine has before it is told otherwise.
FIRST_LAYOUT: Final = Layout(runs=1, threads=1)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a batch gave: logits or vectors (rows, labels or dimensions), its time, and the tokens computed."""

    logits: Logits
    compute_ms: float
    padded_tokens: int


@dataclass(frozen=True, kw_only=True)
class TensorAnswer:
    """What a batch of tensors gave: each output of the graph for all of it, and how long the model took."""

    outputs: Sequence[Tensor]
    compute_ms: float


class Engine:
    """One engine process after another; how many batches run at a time is up to its layout and its caller.

    ``shapes`` are what batches of tokens are padded to; whoever knows the device sets them. ``restart_failed`` is
    called when it could not be started again, which is then tried once more, or given up.
    """

    def __init__(self, load: Load, *, pad_id: int) -> None:
        self._load, self._pad_id = load, pad_id
        self._link: EngineLink | None = None
        self._ids = count(1)
        self._up = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self.layout = FIRST_LAYOUT
        self.shapes: Shapes = EXACT
        self._first: Loaded | None = None
        self.restarts = 0
        self.restart_failed: Callable[[], None] = lambda: None

    @property
    def ready(self) -> bool:
        """Whether the model is loaded and arranged, and the process lives."""
        return self._up.is_set()

    @property
    def pid(self) -> int | None:
        """Process id of the present engine."""
        return self._link.process.pid if self._link is not None else None

    async def start(self) -> Loaded:
        """Start the process and load the model; afterwards it is kept alive.

        Raises:
            OperatorError: the model cannot be loaded.
        """
        loaded = await self._open()
        self._keeper = spawn(self._keep(), "engine-keeper")
        return loaded

    async def stop(self) -> None:
        """End the process; a run that is under way fails as spared."""
        await end(self._keeper)
        await self._close()

    async def arrange(self, layout: Layout) -> None:
        """Change to a layout; runs under way end first. A process that replaces this one gets the same layout.

        Raises:
            LayoutRefused: the machine has no room for it; the layout in force stays.
            EngineLost: the process died over it; the layout in force stays for its successor.
        """
        link = await self._living()
        try:
            await self._ask_for(link, layout)
        except TimeoutError:
            raise EngineLost(f"no layout within {LOAD_TIMEOUT_S:g} s", hung=True, blame=Blame.SURE) from None
        self.layout = layout

    async def run(
        self,
        rows: Sequence[Sequence[int]],
        *,
        timeout_ms: float,
        wide: bool = False,
        types: Sequence[Sequence[int]] = (),
    ) -> Answer:
        """Run one batch of token id rows in a lane, or in the wide session if the layout has one.

        ``types`` are the rows' token types, an empty one for all 0.

        Waits for an engine that is being restarted; ``timeout_ms`` counts from the sending, and past it the engine
        counts as hung. The caller keeps to as many at a time as the layout has runs.

        Raises:
            BatchRaised: the model raised; `OutOfMemory` when the device had no memory for the batch, `TooLong` when it
                is more than can be sent.
            EngineLost: the process died or hung; a new one is on its way.
        """
        link = await self._living()
        wide = wide and self.layout.wide_threads > 0
        shape = self.shapes.padded(len(rows), max(map(len, rows)))
        run = pack_run(next(self._ids), rows, pad_id=self._pad_id, wide=wide, shape=shape, types=types)
        ran = await link.run(run, timeout_ms=timeout_ms)
        if not isinstance(ran, Ran):
            raise BatchRaised("the engine answered tokens with tensors")
        try:
            logits = ran.matrix()[: len(rows)]
            return Answer(logits=logits, compute_ms=ran.compute_ms, padded_tokens=run.rows * run.length)
        except WireError as error:
            raise BatchRaised(str(error)) from None

    async def run_tensors(
        self, jobs: Sequence[Sequence[Tensor]], *, timeout_ms: float, wide: bool = False
    ) -> TensorAnswer:
        """Run one batch of jobs of one group, each with its inputs in the order of the graph; otherwise as `run`."""
        link = await self._living()
        wide = wide and self.layout.wide_threads > 0
        ran = await link.run(pack_tensors(next(self._ids), jobs, wide=wide), timeout_ms=timeout_ms)
        if not isinstance(ran, RanTensors):
            raise BatchRaised("the engine answered tensors with logits")
        return TensorAnswer(outputs=ran.outputs, compute_ms=ran.compute_ms)

    async def _living(self) -> EngineLink:
        await self._up.wait()
        assert self._link is not None, "an engine that is up has a link"
        return self._link

    async def _keep(self) -> None:
        """Replace the process whenever it ends."""
        backoff = Backoff(first_s=0.1, most_s=10.0)
        loop = asyncio.get_running_loop()
        while True:
            assert self._link is not None, "the first process has been started"
            born = loop.time()
            status = await self._link.ended()
            if loop.time() - born > 60:
                backoff.reset()
            _log.warning("engine.ended", status=status)
            for left in reversed(range(RESTART_TRIES)):
                self.restarts += 1
                try:
                    await self._open()
                except OperatorError as error:
                    _log.error("engine.restart_failed", error=str(error), tries_left=left)
                    self.restart_failed()
                    if not left:
                        # The jobs that we hold are better off with another batcher.
                        raise
                    await asyncio.sleep(backoff.next_s())
                else:
                    _log.info("engine.restarted", pid=self.pid, restarts=self.restarts)
                    break

    async def _open(self) -> Loaded:
        """Start a process, load the model and arrange it; `OperatorError` when that fails."""
        await self._close()
        link = self._link = await open_link(self._up.clear)
        try:
            loaded = await link.ask(self._load, timeout_s=LOAD_TIMEOUT_S)
            if isinstance(loaded, LoadFailed):
                raise OperatorError(loaded.detail)
            if not isinstance(loaded, Loaded):
                raise OperatorError("the engine process answered out of turn")
            self._check_same(loaded)
            if self.layout != FIRST_LAYOUT:
                await self._ask_for(link, self.layout)
        except TimeoutError:
            await self._close()
            raise OperatorError(f"the model did not load within {LOAD_TIMEOUT_S:g} s") from None
        except EngineLost as error:
            await self._close()
            raise OperatorError("the engine process ended while it loaded the model") from error
        except (OperatorError, LayoutRefused) as error:
            await self._close()
            raise OperatorError(str(error)) from error
        self._up.set()
        return loaded

    def _check_same(self, loaded: Loaded) -> None:
        """Refuse a model that came back as another one, or elsewhere: what is known of the first would be wrong."""
        first = self._first = self._first or loaded
        if (loaded.device, loaded.labels, loaded.digest) != (first.device, first.labels, first.digest):
            raise OperatorError(
                f"the model came back changed (on {first.device} before, on {loaded.device} now,"
                f" digest {first.digest[:16]} before, {loaded.digest[:16]} now): start the batcher anew"
            )

    async def _ask_for(self, link: EngineLink, layout: Layout) -> None:
        answer = await link.ask(
            Arrange(
                runs=layout.runs, threads=layout.threads, wide_threads=layout.wide_threads, spin=layout.spin
            ),
            timeout_s=LOAD_TIMEOUT_S,
        )
        if isinstance(answer, ArrangeFailed):
            raise LayoutRefused(answer.detail)
        if not isinstance(answer, Arranged):
            raise OperatorError("the engine process answered out of turn")

    async def _close(self) -> None:
        self._up.clear()
        if self._link is not None:
            await self._link.close()
