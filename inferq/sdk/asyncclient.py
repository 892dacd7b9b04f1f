"""`inferq.AsyncClient`: submit texts, and have what becomes of them pushed."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Self

from inferq.apikeys import usable
from inferq.sdk.batches import Options, Text, body_of, paired
from inferq.sdk.errors import ClientClosed
from inferq.sdk.http import Http
from inferq.sdk.polling import POLLS_AT_ONCE
from inferq.sdk.reads import Reads
from inferq.sdk.records import Record
from inferq.sdk.shapes import Job, Refusal, Result, id_of, result_of, several
from inferq.sdk.streaming import One, Stream, within
from inferq.sdk.submitting import Submitting
from inferq.sdk.tensorcalls import TensorCalls
from inferq.sdk.textcalls import PriorityName, TextCalls
from inferq.sdk.watching import Watching

URL_VARIABLE: Final = "INFERQ_URL"
KEY_VARIABLE: Final = "INFERQ_API_KEY"
DEFAULT_URL: Final = "http://127.0.0.1:8080"
TIMEOUT_S: Final = 60.0
MAX_IN_FLIGHT: Final = 64
MOST_IN_FLIGHT: Final = 1024


class AsyncClient(TextCalls, TensorCalls):
    """A client of one deployment, for one event loop.

    ``url`` is that of the HTTP API (default: ``INFERQ_URL``, else http://127.0.0.1:8080), ``api_key`` goes to it and
    to the notifier (default: ``INFERQ_API_KEY``, else none). ``timeout_s`` is how long a submit is tried while the
    queue is full or nobody answers; ``max_in_flight`` how many requests are under way at once, further ones wait.

    What becomes of jobs is pushed over one WebSocket, which is made at the first wait and restored when it breaks;
    where push does not work, jobs are polled. Nothing is sent before the first call.

    Example:
        >>> import asyncio, inferq
        >>> async def main():
        ...     async with inferq.AsyncClient() as client:
        ...         result = await client.run("I loved every minute of it")
        ...         return result.label
        >>> asyncio.run(main())
        'POSITIVE'

    Raises:
        ValueError: the URL is not one of HTTP, the key is none, or a number is out of range.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self.url = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
        self._key = api_key or os.environ.get(KEY_VARIABLE) or None
        if self._key is not None and not usable(self._key):
            raise ValueError("the API key must have 1 to 255 visible ASCII characters")
        if not timeout_s >= 0 or not 1 <= max_in_flight <= MOST_IN_FLIGHT:
            raise ValueError(f"timeout_s must be 0 or more, and max_in_flight from 1 to {MOST_IN_FLIGHT}")
        self._http = Http(self.url, key=self._key, connections=max_in_flight + POLLS_AT_ONCE)
        self._reads = Reads(self._http)
        self._submitting = Submitting(self._http, timeout_s=timeout_s, at_once=max_in_flight)
        self._watching = Watching(self._http, key=self._key)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the WebSocket and all connections; calls that still wait raise `ClientClosed`."""
        if not self._closed:
            self._closed = True
            await self._watching.close()
            await self._http.close()

    async def check(self) -> None:
        """Make sure that the API is there; raises `Unreachable`, after one try."""
        await self._open().send("GET", "/healthz")

    async def submit(
        self,
        text: str,
        *,
        text_pair: str | None = None,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit a text (1 to 2000 characters) and return the job once it is safely queued.

        ``text_pair`` is the second text of a pair, for a model that takes pairs.
        ``deadline_ms`` counts from acceptance; ``webhook`` is a URL that is sent the final record. Refusals for load
        (429, 503) and broken connections are tried again for ``timeout_s`` from the first try, under one idempotency
        key (a new one if none is given), so that a text becomes one job whatever breaks.

        Raises:
            CallerRefused: the API does not take it; the class and ``errors`` say why.
            ServiceRefused: there was no room all that time.
            Unreachable: no answer came all that time; it may have become a job, which the same key would find.
        """
        self._open()
        options = Options(model=model, deadline_ms=deadline_ms, priority=priority, webhook=webhook)
        return await self._submit_body(body_of(paired(text, text_pair), options.fields), idempotency_key)

    async def submit_many(
        self,
        texts: Iterable[Text] | AsyncIterable[Text],
        *,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> list[Job | Refusal]:
        """Submit texts, 256 a request, and return for each in order its job or why it became none.

        A pair of texts is a tuple of two. Each text is judged by itself; those that are refused for load alone are
        tried again, until nothing of the call has been accepted for ``timeout_s``, leaving out while texts are slow to
        come. The options are those of `submit`, the same for all; of an idempotency key one is made for each request,
        so the same call finds its jobs.

        Example:
            >>> async def main():
            ...     async with inferq.AsyncClient() as client:
            ...         jobs = await client.submit_many(f"text {number}" for number in range(1000))
            ...         return len([record async for record in client.stream(jobs)])
            >>> asyncio.run(main())
            1000

        Raises:
            KeyRefused, Forbidden: it is so for every text.
        """
        self._open()
        options = Options(model=model, deadline_ms=deadline_ms, priority=priority, webhook=webhook)
        outcomes = await self._submitting.many(texts, options, idempotency_key)
        job = next((outcome for outcome in outcomes if isinstance(outcome, Job)), None)
        if job is not None:
            self._watching.learn(job.stream_url)
        return outcomes

    async def result(self, job: Job | str, *, timeout_s: float | None = None) -> Result:
        """Wait for a job's end and return its result; the job is one that `submit` returned, or its id.

        Raises:
            JobFailed, JobCancelled, JobExpired: it ended without a result; ``record`` says more.
            JobNotFound, WaitTimeout, KeyRefused, Unreachable: as `wait`.

        Example:
            >>> async def main():
            ...     async with inferq.AsyncClient() as client:
            ...         job = await client.submit("the food was cold and the waiter was rude")
            ...         return await client.result(job, timeout_s=30)
            >>> asyncio.run(main()).label
            'NEGATIVE'
        """
        return result_of(await self.wait(job, timeout_s=timeout_s))

    async def wait(self, job: Job | str, *, timeout_s: float | None = None) -> Record:
        """Wait for a job's end and return its final record, whatever its status.

        Raises:
            JobNotFound: no such job, or another key's, or its record has expired.
            WaitTimeout: ``timeout_s`` have passed; the job goes on.
            KeyRefused: the API key is missing or wrong.
            Unreachable: neither push nor polling has got an answer for five minutes.
        """
        return await self._wait(job, timeout_s, timeout_s)

    async def stream(
        self,
        jobs: Iterable[Job | str] | AsyncIterable[Job | str],
        *,
        updates: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Record, None]:
        """Yield each job's final record as it comes, and with ``updates`` its earlier ones too.

        The jobs are taken from ``jobs`` as room comes: at most 10,000 are waited for or not yet read at once, so a
        hundred thousand of them need no more memory than that. Of a job's updates only the last is kept while nobody
        reads. A job that is given twice comes once.

        Example:
            >>> async def main():
            ...     async with inferq.AsyncClient() as client:
            ...         job = await client.submit("the acting is superb")
            ...         return [record.status async for record in client.stream([job], updates=True)][-1]
            >>> asyncio.run(main()) == "done"
            True

        Raises:
            JobNotFound: after all others have come, when a job is unknown, another key's, or its record has expired.
            WaitTimeout: ``timeout_s`` have passed since the first step; what had come before was yielded.
            KeyRefused, Unreachable: as `wait`.
        """
        stream = await self.make_stream(updates=updates)
        async with aclosing(stream.records(several(jobs, "jobs"), timeout_s)) as records:
            async for record in records:
                yield record

    async def make_stream(self, *, updates: bool) -> Stream:
        """Return the stream that `stream` reads from, for those who feed it by themselves."""
        self._open()
        return Stream(self._watching, updates=updates)

    async def record(self, job: Job | str) -> Record:
        """Return a job's record as it is now.

        Raises:
            JobNotFound: no such job, or another key's, or its record has expired.
            ServiceRefused, Unreachable: the API cannot say.
        """
        self._open()
        return await self._reads.record(id_of(job))

    async def cancel(self, job: Job | str) -> Record:
        """Cancel a job and return its record.

        Raises:
            AlreadyFinal: it has ended; its final state stays.
            JobNotFound: no such job, or another key's, or its record has expired.
            ServiceRefused, Unreachable: it is not known whether it was cancelled.
        """
        self._open()
        return await self._reads.cancel(id_of(job))

    async def stats(self) -> dict[str, Any]:
        """Return the deployment's statistics, as `GET /v1/stats` has them; raises as `record`."""
        self._open()
        return await self._reads.stats()

    async def _wait(self, job: Job | str, left_s: float | None, timeout_s: float | None) -> Record:
        job_id, one = id_of(job), One()
        self._open()
        self._watching.add(job, job_id, one)
        try:
            return await within(left_s, one.ended, timeout_s, job_id)
        finally:
            self._watching.remove(job_id, one)
            if one.ended.done() and not one.ended.cancelled():
                # Looked at, even where a cancellation came with it.
                one.ended.exception()

    def _open(self) -> Http:
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise ClientClosed("the client belongs to another event loop: make one for each")
        return self._http
