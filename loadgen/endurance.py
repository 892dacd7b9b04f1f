"""An hour's worth of random shapes through one engine process: does its memory stay level?

20,000 batches of drawn rows and lengths, as many at a time as there are cores, now and then one on all threads, and now
and then a long one. Growth is from the second tenth of the batches to the last: before, the arenas find their size.
"""

import asyncio
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

from batcher.frames import HEADER_BYTES, batcher_reader, body_bytes, encode
from batcher.wire import Arrange, Arranged, FromEngine, Load, Loaded, Ran, ToEngine, pack_run
from inferq.childprocess import inherited_env
from inferq.cpus import available_cpus
from inferq.modelfolder import resolve
from inferq.modelspec import parse
from loadgen.figures import Figure, at_least, at_most

BATCHES: Final = 20_000
LOOK_EVERY: Final = 50
MOST_ROWS: Final = 16
USUAL_LENGTHS: Final = (4, 64)
LONG_LENGTHS: Final = (64, 512)
LONG_SHARE: Final = 0.01
WIDE_SHARE: Final = 0.05
MOST_TOKENS: Final = 4096
# Ids that any vocabulary has.
IDS: Final = (4, 500)
GROWTH_GOAL_PERCENT: Final = 5.0
END_WITHIN_S: Final = 10.0


@dataclass(kw_only=True)
class Endured:
    """The process's resident memory (MB) over the run, at even distances of batches."""

    wanted: int
    batches: int = 0
    seconds: float = 0.0
    levels_mb: list[float] = field(default_factory=list)


class _Process:
    """An engine process: frames out, frames in."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._seen = psutil.Process(pid)
        self._reader, self._writer, self._frames = reader, writer, batcher_reader()

    @property
    def resident_mb(self) -> float:
        """Return its resident memory."""
        return float(self._seen.memory_info().rss / 1e6)

    def send(self, message: ToEngine) -> None:
        """Send a message."""
        self._writer.write(encode(message))

    async def receive(self) -> FromEngine:
        """Return the next answer."""
        header = await self._reader.readexactly(HEADER_BYTES)
        return self._frames.decode(await self._reader.readexactly(body_bytes(header)))

    async def ask(self, message: ToEngine, kind: type[FromEngine]) -> None:
        """Send a message whose answer has to be of a kind."""
        self.send(message)
        answer = await self.receive()
        if not isinstance(answer, kind):
            raise ConnectionError(f"the engine process answered {type(answer).__name__}")


def shape(drawn: random.Random) -> tuple[int, int]:
    """Draw rows and length of a batch: small ones as often as large ones, within the most tokens of a batch."""
    low, high = LONG_LENGTHS if drawn.random() < LONG_SHARE else USUAL_LENGTHS
    length = round(low * (high / low) ** drawn.random())
    rows = round(float(MOST_ROWS) ** drawn.random())
    return max(1, min(rows, MOST_TOKENS // length)), length


async def endured(
    model: str, *, batches: int, most_s: float, say: Callable[[str], None], seed: int = 0
) -> Endured:
    """Run batches through one engine process and watch its memory; fewer when the time is over before."""
    drawn, found = random.Random(seed), Endured(wanted=batches)
    spec, cores = parse(model), available_cpus()
    folder = resolve(spec)
    async with _process() as engine:
        path = str(folder.path) if folder is not None else None
        await engine.ask(Load(spec=spec.text, folder=path, device="cpu", precision="fp32"), Loaded)
        await engine.ask(Arrange(runs=cores, threads=1, wide_threads=cores, spin=False), Arranged)
        begun, sent = time.monotonic(), 0
        while found.batches < batches:
            while sent < batches and sent - found.batches < cores and time.monotonic() - begun < most_s:
                rows, length = shape(drawn)
                ids = [[drawn.randint(*IDS)] * drawn.randint(1, length) for _ in range(rows - 1)]
                ids.append([drawn.randint(*IDS)] * length)
                engine.send(pack_run(sent, ids, wide=drawn.random() < WIDE_SHARE))
                sent += 1
            if sent == found.batches:
                break  # The time is over, and what was begun has ended.
            answer = await engine.receive()
            if not isinstance(answer, Ran):
                raise ConnectionError(f"the engine process answered {type(answer).__name__}")
            found.batches += 1
            if found.batches % LOOK_EVERY == 0:
                found.levels_mb.append(engine.resident_mb)
            if found.batches % max(1, batches // 10) == 0:
                say(f"endurance: {found.batches} of {batches} batches, {engine.resident_mb:.0f} MB")
        found.seconds = time.monotonic() - begun
    return found


def judged(kind: str, found: Endured) -> list[Figure]:
    """Return the figures of a run; ``kind`` names the model."""
    where = f"{kind}, random shapes"
    after, last = tenth(found.levels_mb, 2), tenth(found.levels_mb, 10)
    return [
        at_least(f"{where}, batches in {found.seconds:.0f} s", found.batches, found.wanted, "batches"),
        Figure(name=f"{where}, memory (RSS) of the engine after the first tenth", value=after, unit="MB"),
        Figure(name=f"{where}, memory (RSS) of the engine in the last tenth", value=last, unit="MB"),
        at_most(f"{where}, growth since the first tenth", 100 * (last / after - 1), GROWTH_GOAL_PERCENT, "%"),
    ]


def tenth(levels_mb: Sequence[float], number: int) -> float:
    """Return the median of the first, second, … tenth of the levels; nan when there are none."""
    size = len(levels_mb) / 10
    part = levels_mb[int((number - 1) * size) : max(1, round(number * size))]
    return statistics.median(part) if part else float("nan")


@asynccontextmanager
async def _process() -> AsyncIterator[_Process]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "batcher.engine_process", "--fd", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=asyncio.subprocess.DEVNULL,
            env=inherited_env(),
        )
    ours.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        yield _Process(process.pid, reader, writer)
    finally:
        # It ends by itself at the end of the stream.
        writer.close()
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
