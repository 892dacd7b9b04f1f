"""A hundred thousand lines through `inferq submit -`: all done, in their order, in memory that does not grow.

The simulated model's answer follows from the text alone, so the order of what is printed can be told: the lines are a
thousand texts in turn, and what each gives is asked for beforehand, one by one, by polling.
"""

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from inferq.childprocess import inherited_env
from loadgen.client import Client
from loadgen.deployment import deployed
from loadgen.figures import Figure, at_most, equal
from loadgen.parts import Say

MODEL: Final = "simulated:1,0.05"
# No multiple of any batch's size, so that a batch that is printed out of turn shows.
TEXTS: Final = 997
LEVEL: Final = 1.1
EARLY_SHARE: Final = 0.1
LOOK_SHARE: Final = 0.01
POLL_S: Final = 0.005
ASK_WITHIN_S: Final = 30.0
LONGEST_LINE_BYTES: Final = 1024 * 1024
WRITTEN_AT_ONCE: Final = 500


class _Result(msgspec.Struct):
    label: str
    score: float


class _Record(msgspec.Struct):
    status: str
    result: _Result | None = None


class _Accepted(msgspec.Struct):
    job_id: str


@dataclass(frozen=True, kw_only=True)
class Lines:
    """What one run printed; peaks of the command's own memory (RSS) in MiB, after a tenth and at the end."""

    done: int
    others: int
    misplaced: int
    early_mib: float
    peak_mib: float
    seconds: float
    status: int


async def figures(broker: str, *, lines: int, within_s: float, say: Say) -> list[Figure]:
    """Send the lines through the command and look at what it prints."""
    texts = [f"a film as good as number {number}" for number in range(TEXTS)]
    async with deployed(broker, model=MODEL, batch_policy="greedy", max_batch_size="64") as deployment:
        known = await answers(deployment.url, texts)
        argv = [sys.executable, "-m", "inferq", "submit", "-", "--json", "--url", deployment.url]
        found = await submitted(argv, texts, known, lines=lines, within_s=within_s)
    say(f"  {broker}: {found}")
    where = f"{lines} lines through inferq submit, {broker}"
    return [
        equal(f"{where}, done", found.done, lines, "jobs"),
        equal(f"{where}, printed as anything else", found.others, 0, "lines"),
        equal(f"{where}, printed out of their order", found.misplaced, 0, "lines"),
        equal(f"{where}, exit status", found.status, 0, ""),
        Figure(name=f"{where}, peak memory (RSS) after {EARLY_SHARE:.0%}", value=found.early_mib, unit="MiB"),
        Figure(name=f"{where}, peak memory (RSS) at the end", value=found.peak_mib, unit="MiB"),
        at_most(
            f"{where}, of that, the end over the beginning", found.peak_mib / found.early_mib, LEVEL, "times"
        ),
        Figure(name=f"{where}, time", value=found.seconds, unit="s"),
        Figure(name=f"{where}, rate", value=lines / found.seconds, unit="lines/s"),
    ]


async def answers(url: str, texts: Sequence[str]) -> list[tuple[str, float]]:
    """Return label and score of each text, as polling has it."""
    client = Client(url)
    try:
        async with asyncio.timeout(ASK_WITHIN_S), asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(_answer(client, text)) for text in texts]
    finally:
        await client.close()
    return [one.result() for one in asked]


async def submitted(
    argv: Sequence[str],
    texts: Sequence[str],
    known: Sequence[tuple[str, float]],
    *,
    lines: int,
    within_s: float,
) -> Lines:
    """Run the command on so many lines, the texts in turn; what is still missing when the time is over stays so."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=inherited_env(),
        limit=LONGEST_LINE_BYTES,
    )
    assert process.stdin is not None, "it has a pipe"
    assert process.stdout is not None, "it has a pipe"
    writing = asyncio.create_task(_write(process.stdin, texts, lines))
    begun = time.monotonic()
    printed = done = misplaced = 0
    early_mib = peak_mib = float("nan")
    # Now and then, since the last line may be here only when the process has ended, and its memory with it.
    every = max(1, int(lines * LOOK_SHARE))
    early = max(1, int(lines * EARLY_SHARE)) // every * every
    decode = msgspec.json.Decoder(_Record).decode
    try:
        async with asyncio.timeout(within_s):
            while line := await process.stdout.readline():
                record = decode(line)
                if record.result is not None and record.status == "done":
                    done += 1
                    misplaced += (record.result.label, record.result.score) != known[printed % len(known)]
                printed += 1
                if printed % every == 0:
                    peak_mib = _peak_mib(process.pid) or peak_mib
                if printed == early:
                    early_mib = peak_mib
            status = await process.wait()
    except TimeoutError:
        status = -1
    finally:
        writing.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await asyncio.gather(writing, return_exceptions=True)
    return Lines(
        done=done,
        others=printed - done,
        misplaced=misplaced,
        early_mib=early_mib,
        peak_mib=peak_mib,
        seconds=time.monotonic() - begun,
        status=status,
    )


async def _write(pipe: asyncio.StreamWriter, texts: Sequence[str], lines: int) -> None:
    for first in range(0, lines, WRITTEN_AT_ONCE):
        numbers = range(first, min(lines, first + WRITTEN_AT_ONCE))
        pipe.write("".join(f"{texts[number % len(texts)]}\n" for number in numbers).encode())
        await pipe.drain()
    pipe.close()


async def _answer(client: Client, text: str) -> tuple[str, float]:
    reply = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
    job_id = msgspec.json.decode(reply.body, type=_Accepted).job_id
    while True:
        reply = await client.request("GET", f"/v1/jobs/{job_id}")
        record = msgspec.json.decode(reply.body, type=_Record)
        if record.result is not None:
            return record.result.label, record.result.score
        await asyncio.sleep(POLL_S)


def _peak_mib(pid: int) -> float:
    """Return the most memory (RSS) that a process has had; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
