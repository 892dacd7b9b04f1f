"""`inferq.Client`: the client for code without an event loop."""

import time
import warnings
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from inferq.sdk.asyncclient import MAX_IN_FLIGHT, TIMEOUT_S, AsyncClient
from inferq.sdk.batches import Text
from inferq.sdk.blockingtensors import BlockingTensorCalls
from inferq.sdk.loopthread import LoopThread
from inferq.sdk.records import Record
from inferq.sdk.shapes import Embedding, Job, Refusal, Result, several
from inferq.sdk.streaming import within
from inferq.sdk.textcalls import PriorityName, TextOptions

# Jobs that go to the other thread together.
_AT_ONCE: Final = 1_000


class Client(BlockingTensorCalls):
    """A client of one deployment, for any number of threads: an `AsyncClient` on a thread of its own.

    The arguments are those of `AsyncClient`, and so is what the methods do and raise. Use it as a context manager, or
    `close` it. It works where an event loop runs already, such as in a notebook, but blocks it. A forked process
    cannot use its parent's: it makes its own.

    Example:
        >>> import inferq
        >>> with inferq.Client() as client:
        ...     result = client.run("I loved every minute of it")
        >>> result.label
        'POSITIVE'
        >>> result.score > 0.5
        True

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
        self._client = AsyncClient(url, api_key=api_key, timeout_s=timeout_s, max_in_flight=max_in_flight)
        self._thread = LoopThread("inferq-client", self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; calls that still wait raise `ClientClosed`."""
        self._thread.close()

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.runs:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            thread.close(wait=False)

    def check(self) -> None:
        """Make sure that the API is there; raises `Unreachable`, after one try."""
        self._thread.call(self._client.check())

    def submit(
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
        """Submit a text and return the job once it is safely queued; see `AsyncClient.submit`.

        Example:
            >>> with inferq.Client() as client:
            ...     job = client.submit("easy to use, looks great", priority="bulk", deadline_ms=60_000)
            ...     client.record(job).model
            'builtin'
        """
        return self._thread.call(
            self._client.submit(
                text,
                text_pair=text_pair,
                model=model,
                deadline_ms=deadline_ms,
                priority=priority,
                webhook=webhook,
                idempotency_key=idempotency_key,
            )
        )

    def submit_many(
        self,
        texts: Iterable[Text],
        *,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> list[Job | Refusal]:
        """Submit texts; for each in order its job or why it became none; see `AsyncClient.submit_many`.

        Example:
            >>> with inferq.Client() as client:
            ...     outcomes = client.submit_many(["a complete waste of money", ""])
            >>> [type(outcome).__name__ for outcome in outcomes]
            ['Job', 'Refusal']
            >>> print(outcomes[1].error)
            invalid_request: /text must be a string of 1 to 2000 characters
        """
        return self._thread.call(
            self._client.submit_many(
                # Here, since what they come from may use this client.
                list(several(texts, "texts")),
                model=model,
                deadline_ms=deadline_ms,
                priority=priority,
                webhook=webhook,
                idempotency_key=idempotency_key,
            )
        )

    def result(self, job: Job | str, *, timeout_s: float | None = None) -> Result:
        """Wait for a job's end and return its result; see `AsyncClient.result`.

        Example:
            >>> with inferq.Client() as client:
            ...     job = client.submit("boring, slow and far too long")
            ...     client.result(job, timeout_s=30).label
            'NEGATIVE'
        """
        return self._thread.call(self._client.result(job, timeout_s=timeout_s))

    def run(self, text: str, *, timeout_s: float | None = None, **options: Unpack[TextOptions]) -> Result:
        """Submit a text and return its result; see `AsyncClient.run`.

        Example:
            >>> with inferq.Client() as client:
            ...     result = client.run("She was kind, helpful and very friendly")
            >>> sorted(result.scores)
            ['NEGATIVE', 'POSITIVE']
        """
        return self._thread.call(self._client.run(text, timeout_s=timeout_s, **options))

    def embed(
        self, text: str, *, timeout_s: float | None = None, **options: Unpack[TextOptions]
    ) -> Embedding:
        """Submit a text to a model of embeddings and return its vector; see `AsyncClient.embed`."""
        return self._thread.call(self._client.embed(text, timeout_s=timeout_s, **options))

    def embedding(self, job: Job | str, *, timeout_s: float | None = None) -> Embedding:
        """Wait for the end of a job of a model of embeddings and return its vector; see `AsyncClient.embedding`."""
        return self._thread.call(self._client.embedding(job, timeout_s=timeout_s))

    def wait(self, job: Job | str, *, timeout_s: float | None = None) -> Record:
        """Wait for a job's end and return its final record, whatever its status; see `AsyncClient.wait`."""
        return self._thread.call(self._client.wait(job, timeout_s=timeout_s))

    def stream(
        self, jobs: Iterable[Job | str], *, updates: bool = False, timeout_s: float | None = None
    ) -> Generator[Record, None, None]:
        """Yield each job's final record as it comes; see `AsyncClient.stream`.

        The jobs are taken from ``jobs`` on the caller's thread, so they may come from a generator that submits.

        Example:
            >>> with inferq.Client() as client:
            ...     jobs = (client.submit(text) for text in ["I loved it", "it broke after two days"])
            ...     sorted(record.result["label"] for record in client.stream(jobs))
            ['NEGATIVE', 'POSITIVE']
        """
        given, more = iter(several(jobs, "jobs")), True
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        stream = self._thread.call(self._client.make_stream(updates=updates))
        try:
            while True:
                room = min(stream.room, _AT_ONCE)
                taken: list[Job | str] = []
                # What has come is not kept waiting by jobs that are slow to come.
                while more and len(taken) < room and not stream.ready:
                    job = next(given, None)
                    more = job is not None
                    taken += [] if job is None else [job]
                step = stream.step(taken, finish=not more, wait=not more or room <= 0)
                left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
                records = self._thread.call(within(left_s, step, timeout_s))
                if not records and not more:
                    return
                yield from records
        finally:
            self._thread.post(stream.close)

    def record(self, job: Job | str) -> Record:
        """Return a job's record as it is now; see `AsyncClient.record`.

        Example:
            >>> with inferq.Client() as client:
            ...     client.record("0" * 32)
            Traceback (most recent call last):
            inferq.sdk.errors.JobNotFound: not_found: no job has this id, or its record has expired
        """
        return self._thread.call(self._client.record(job))

    def cancel(self, job: Job | str) -> Record:
        """Cancel a job and return its record; see `AsyncClient.cancel`.

        Example:
            >>> with inferq.Client() as client:
            ...     job = client.submit("I loved it")
            ...     try:
            ...         status = client.cancel(job).status
            ...     except inferq.AlreadyFinal:
            ...         status = client.record(job).status
            >>> status in {"cancelled", "done"}
            True
        """
        return self._thread.call(self._client.cancel(job))

    def stats(self) -> dict[str, Any]:
        """Return the deployment's statistics, as `GET /v1/stats` has them.

        Example:
            >>> with inferq.Client() as client:
            ...     sorted(client.stats())[:3]
            ['batchers', 'batches', 'breakers']
        """
        return self._thread.call(self._client.stats())
