"""One open-loop run: submits on schedule, follows each job by push, and says what came of it."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from inferq.jobs import JobRecord, Status, decode_record
from loadgen.client import Client
from loadgen.figures import percentile
from loadgen.jobsocket import pushed

# How long after the last send results may still come in.
PATIENCE_S: Final = 60.0


class _Accepted(msgspec.Struct):
    job_id: str
    stream_url: str


@dataclass(kw_only=True)
class Outcome:
    """What a run saw; times in seconds from each request's intended send.

    ``lags`` is by how much the generator itself was late. ``last_after_s`` is when the last result came, counted from
    the last send.
    """

    submit: list[float] = field(default_factory=list)
    pushed: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    records: list[JobRecord] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    last_after_s: float = 0.0

    @property
    def done(self) -> int:
        """Count the jobs that ended as done."""
        return sum(record.status is Status.DONE for record in self.records)

    def line(self, name: str, values: Sequence[float]) -> str:
        """Return p50, p90, p99 and the largest of some of the times, in milliseconds."""
        ordered = sorted(values)
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        parts = (f"{label} {percentile(ordered, share) * 1000:.1f} ms" for label, share in shares.items())
        return f"{name}: " + ", ".join(parts)


async def run(url: str, due: Iterable[float], texts: Iterable[str], *, key: str = "") -> Outcome:
    """Send each text when it is due; return once every accepted job was pushed, or patience is over.

    ``key`` is the API key that submits and streams carry, empty for none.
    """
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    client = Client(url, key=key)
    start = loop.time() + 0.1
    last_send = start
    try:
        async with asyncio.TaskGroup() as tasks:
            for offset, text in zip(due, texts, strict=False):
                intended = start + offset
                if (early := intended - loop.time()) > 0:
                    await asyncio.sleep(early)
                last_send = loop.time()
                outcome.lags.append(max(0.0, last_send - intended))
                tasks.create_task(_job(client, text, intended, outcome, key))
        outcome.last_after_s = loop.time() - last_send
    finally:
        await client.close()
    return outcome


async def _job(client: Client, text: str, intended: float, outcome: Outcome, key: str) -> None:
    loop = asyncio.get_running_loop()
    try:
        reply = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
    except (OSError, TimeoutError) as error:
        outcome.refused[type(error).__name__] += 1
        return
    outcome.submit.append(loop.time() - intended)
    if reply.status != 202:
        outcome.refused[str(reply.status)] += 1
        return
    accepted = msgspec.json.decode(reply.body, type=_Accepted)
    try:
        async with asyncio.timeout(PATIENCE_S):
            record = await pushed(accepted.stream_url, key=key)
    except (OSError, TimeoutError) as error:
        outcome.refused[f"push {type(error).__name__}"] += 1
        return
    outcome.pushed.append(loop.time() - intended)
    outcome.records.append(decode_record(record))
