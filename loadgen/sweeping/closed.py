"""One level of a closed loop: so many clients, each of which sends its next job when it has the last one's result.

The clients share one process and one loop, which their CPU share tells of. A client that is refused waits a little
before its next job, or it would do nothing but be refused.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from inferq.errors import first_line, first_of
from loadgen.client import Client
from loadgen.generator.jobrecord import Record, decode_record
from loadgen.sweeping.answered import Answer, Count, level
from loadgen.sweeping.levels import warm_s
from loadgen.sweeping.row import Row

ACCEPTED: Final = 202
# Below the time that a client gives an answer.
WAIT_S: Final = 20
REFUSED_S: Final = 0.1


async def closed(
    url: str,
    *,
    key: str,
    in_flight: int,
    seconds: float,
    texts: Iterator[str],
    budget_ms: float,
    most_rows: int | None,
) -> Row:
    """Run a level with texts of its own; its warm-up comes first and is not counted.

    Raises:
        ConnectionError: the target is away.
    """
    client = Client(url, key=key)
    answers: list[Answer] = []
    opens_s = time.monotonic() + warm_s(seconds)
    closes_s = opens_s + seconds
    try:
        async with asyncio.TaskGroup() as tasks:
            measuring = tasks.create_task(_cpu_s(opens_s, closes_s))
            for _ in range(in_flight):
                tasks.create_task(_client(client, texts, answers, closes_s))
    except ExceptionGroup as failed:
        first = first_of(failed)
        if not isinstance(first, OSError):
            raise
        raise ConnectionError(f"{url} did not answer: {first_line(first)}") from failed
    finally:
        await client.close()
    return level(
        answers,
        Count(opens_s=opens_s, closes_s=closes_s, own_cpu_s=measuring.result()),
        in_flight=in_flight,
        budget_ms=budget_ms,
        most_rows=most_rows,
    )


async def _client(client: Client, texts: Iterator[str], answers: list[Answer], closes_s: float) -> None:
    """Send job after job until the count has closed; the last one is waited for, and counts as under way."""
    while (sent_s := time.monotonic()) < closes_s and (text := next(texts, None)) is not None:
        reply = await client.request("POST", "/v1/infer", msgspec.json.encode({"text": text}))
        accepted_s = time.monotonic()
        record = None
        if reply.status == ACCEPTED:
            record = await _result(client, msgspec.json.decode(reply.body)["job_id"])
        answers.append(Answer(sent_s=sent_s, accepted_s=accepted_s, ended_s=time.monotonic(), record=record))
        if record is None:
            await asyncio.sleep(REFUSED_S)


async def _result(client: Client, job_id: str) -> Record | None:
    """Return the final record; None when there is none after one long wait."""
    reply = await client.request("GET", f"/v1/jobs/{job_id}?wait={WAIT_S}")
    if reply.status != 200:
        return None
    record = decode_record(reply.body)
    return record if record.final else None


async def _cpu_s(opens_s: float, closes_s: float) -> float:
    """Return the CPU that this process takes within the count."""
    await asyncio.sleep(max(0.0, opens_s - time.monotonic()))
    begun_s = time.process_time()
    await asyncio.sleep(max(0.0, closes_s - time.monotonic()))
    return time.process_time() - begun_s
