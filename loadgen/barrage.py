"""Submits at full speed whatever becomes of the pipeline under them, and keeps what each caller was told.

Every text is submitted once. A refusal is an answer like any other, and so is none at all: what counts is that whatever
was answered with 202 is there in the end.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from inferq.jobs import decode_record
from loadgen.client import Client, Reply

JOBS_PATH: Final = "/v1/jobs"
INFER_PATH: Final = "/v1/infer"
# After a connection that failed; a refusal says by itself how long to wait.
PAUSE_S: Final = 0.1
READERS: Final = 64
LOOK_AGAIN_S: Final = 0.2
UNKNOWN: Final = "unknown"
UNREACHED: Final = "unreached"


@dataclass(kw_only=True)
class Barrage:
    """``accepted`` maps ids to texts, ``refused`` counts by kind; ``bare`` counts refusals without `Retry-After`.

    With ``heed`` a caller waits as long as a refusal asks it to before its next submit.
    """

    url: str
    in_flight: int
    heed: bool = True
    accepted: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    bare: int = 0
    slowest_s: float = 0.0

    @property
    def answered(self) -> int:
        """How many submits have come to an end, be it a good one or not."""
        return len(self.accepted) + self.refused.total()

    async def run(self, texts: Iterable[str], *, within_s: float) -> None:
        """Submit all texts; raises TimeoutError."""
        client, left = Client(self.url), iter(texts)
        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as tasks:
                for _ in range(self.in_flight):
                    tasks.create_task(self._submit(client, left))
        finally:
            await client.close()

    async def _submit(self, client: Client, left: Iterator[str]) -> None:
        for text in left:
            begun = time.monotonic()
            wait_s = PAUSE_S
            try:
                reply = await client.request("POST", INFER_PATH, msgspec.json.encode({"text": text}))
            except ConnectionRefusedError:
                self.refused["no connection"] += 1
            except (OSError, TimeoutError):
                self.refused["no answer"] += 1
            else:
                wait_s = self._note(text, reply)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            if wait_s:
                await asyncio.sleep(wait_s)

    def _note(self, text: str, reply: Reply) -> float:
        """Note an answer; return how long to wait before the next submit."""
        answer = msgspec.json.decode(reply.body)
        if reply.status == 202:
            self.accepted[answer["job_id"]] = text
            return 0.0
        self.refused[f"{reply.status} {answer['code']}"] += 1
        after_s = reply.headers.get("retry-after", "")
        if not after_s.isdigit() or int(after_s) < 1:
            self.bare += 1
            return PAUSE_S
        return float(after_s) if self.heed else 0.0


async def fates(url: str, job_ids: Collection[str], *, within_s: float) -> Counter[str]:
    """Count jobs by the status of their records, once all are final or the time is over.

    A job without a record is `UNKNOWN`, one that could not be asked for `UNREACHED`.
    """
    over_s = time.monotonic() + within_s
    client, left, found = Client(url), iter(job_ids), Counter[str]()

    async def read() -> None:
        for job_id in left:
            found[await _fate(client, job_id, over_s)] += 1

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(READERS):
                tasks.create_task(read())
    finally:
        await client.close()
    return found


async def _fate(client: Client, job_id: str, over_s: float) -> str:
    while True:
        status, final = await _status(client, job_id)
        if final or time.monotonic() > over_s:
            return status
        await asyncio.sleep(LOOK_AGAIN_S)


async def _status(client: Client, job_id: str) -> tuple[str, bool]:
    """Return a job's status and whether it stays so."""
    try:
        reply = await client.request("GET", f"{JOBS_PATH}/{job_id}")
    except (OSError, TimeoutError):
        return UNREACHED, False
    if reply.status == 200:
        record = decode_record(reply.body)
        return record.status, record.final
    return (UNKNOWN, True) if reply.status == 404 else (UNREACHED, False)
