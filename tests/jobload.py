"""A load that survives whatever is killed under it: submits until it has its 202s, and follows every job to its end.

Each job is looked at twice, through push and through polling, and both answers are kept, so that a test can say that
nobody ever saw two.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from inferq.errors import InferqError
from loadgen.client import Client

FINAL = {"done", "failed", "cancelled", "expired"}


class GaveUp(InferqError):
    """A job did not come to its end in time."""


@dataclass(kw_only=True)
class JobLoad:
    """``accepted`` and ``refused`` count while it runs; ``answers`` holds what each job's clients saw."""

    url: Callable[[], str]
    accepted: int = 0
    refused: int = 0
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def run(self, texts: Iterable[str], *, at_once: int, within_s: float) -> None:
        """Submit all texts, at most ``at_once`` in flight, each until it is accepted, and follow them to the end."""
        slots = asyncio.Semaphore(at_once)
        client = Client(self.url())
        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as tasks:
                for text in texts:
                    await slots.acquire()
                    task = tasks.create_task(self._job(client, text))
                    task.add_done_callback(lambda _: slots.release())
        finally:
            await client.close()

    async def _job(self, client: Client, text: str) -> None:
        accepted = await self._submit(client, text)
        job_id = accepted["job_id"]
        pushed = await self._pushed(accepted["stream_url"])
        self.answers[job_id] = [pushed, await self._polled(client, job_id)]

    async def _submit(self, client: Client, text: str) -> dict[str, Any]:
        body = json.dumps({"text": text}).encode()
        while True:
            try:
                reply = await client.request("POST", "/v1/infer", body)
            except (OSError, TimeoutError):
                self.refused += 1
            else:
                if reply.status == 202:
                    self.accepted += 1
                    answer: dict[str, Any] = json.loads(reply.body)
                    return answer
                assert reply.status == 503, reply
                assert "retry-after" in reply.headers, reply
                self.refused += 1
            await asyncio.sleep(0.1)

    async def _pushed(self, stream_url: str) -> dict[str, Any]:
        while True:
            try:
                async with connect(stream_url, compression=None) as socket:
                    record: dict[str, Any] = json.loads(await socket.recv())
                    return record
            except (OSError, TimeoutError, WebSocketException) as error:
                code = getattr(getattr(error, "rcvd", None), "code", None)
                assert code != 4404, f"the record of an accepted job is unknown: {stream_url}"
                await asyncio.sleep(0.1)

    async def _polled(self, client: Client, job_id: str) -> dict[str, Any]:
        while True:
            try:
                reply = await client.request("GET", f"/v1/jobs/{job_id}")
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            if reply.status == 200:
                record: dict[str, Any] = json.loads(reply.body)
                if record["status"] in FINAL:
                    return record
            else:
                assert reply.status == 503, reply
            await asyncio.sleep(0.1)
