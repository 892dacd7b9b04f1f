"""Sending of many texts against an API whose answers and pace the test decides."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from inferq import AsyncClient, KeyRefused
from inferq.cli.asked import Asked, Unreadable
from inferq.cli.outcomes import Outcome
from inferq.cli.sending import BATCH, Items, Sending
from inferq.cli.submit import left_over
from inferq.errors import first_of
from inferq.sdk.batches import Options
from tests.fakeapi import Answer, Call, FakeApi, fake_api, frame, problem, record
from tests.support import eventually


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """One that takes everything, and whose jobs are done at once."""
    async with fake_api() as made:
        yield made


class Run:
    """A run over some chunks, with what it has printed so far."""

    def __init__(
        self,
        api: FakeApi,
        *chunks: Items,
        in_order: bool = True,
        places: int = 1024,
        patience_s: float = 60.0,
    ) -> None:
        self.printed: list[Outcome] = []
        self.printing = asyncio.Event()
        self.printing.set()
        self.read = 0
        self._chunks = chunks
        self._client = AsyncClient(api.url, timeout_s=patience_s)
        self.sending = Sending(self._client, self._show, in_order=in_order, places=places)

    async def __call__(self) -> list[Outcome]:
        """Send all and return what was printed."""
        async with self._client:
            await self.sending.run(self._each())
        return self.printed

    async def _show(self, outcomes: Sequence[Outcome]) -> None:
        await self.printing.wait()
        self.printed += outcomes

    async def _each(self) -> AsyncIterator[Items]:
        for chunk in self._chunks:
            self.read += len(chunk)
            yield chunk


def asked(*texts: str, **options: Any) -> list[Asked]:
    """Texts that ask for the same."""
    return [Asked(text=text, options=Options(**options)) for text in texts]


def numbered(count: int) -> list[Asked]:
    """So many texts."""
    return asked(*(f"text {number}" for number in range(count)))


async def test_results_are_those_of_their_texts_and_in_order(api: FakeApi) -> None:
    """Jobs end in any order, over many requests; each line is the record of the job that its text became."""
    draw = random.Random(1)
    texts: dict[str, str] = {}

    async def shuffled(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in draw.sample(message.get("job_ids", []), len(message.get("job_ids", []))):
            await socket.send(frame(record(job_id, model=texts[job_id])))

    def accept(call: Call) -> Answer:
        answer = api.accept(call)
        if call.path == "/v1/infer/batch":
            for entry, job in zip(call.json["inputs"], answer.body["jobs"], strict=True):
                texts[job["job_id"]] = entry["text"]
        return answer

    api.answerer, api.pushing = accept, shuffled
    printed = await Run(api, *(numbered(300)[at : at + 70] for at in range(0, 300, 70)), places=150)()
    assert [outcome.record and outcome.record.model for outcome in printed] == [
        f"text {number}" for number in range(300)
    ]
    assert [outcome.text for outcome in printed] == [f"text {number}" for number in range(300)]
    assert len(api.sockets) == 1


async def test_a_text_goes_alone_and_lines_together(api: FakeApi) -> None:
    """One text is a submit; a chunk of lines is one request, or several of 256."""
    run = Run(api, asked("alone"), numbered(2 * BATCH + 1))
    await run()
    assert len(api.of("/v1/infer")) == 2
    assert [len(call.json["inputs"]) for call in api.of("/v1/infer/batch")] == [BATCH, BATCH]
    assert (run.sending.accepted, run.sending.unprinted, run.sending.failed) == (2 * BATCH + 2, 0, 0)
    assert left_over([run.sending]) == left_over([]) == ""
    run.sending.printed -= 1
    run.sending.submitting += 2
    assert left_over([run.sending]) == (
        ": 1 submitted jobs were not printed and still run, and 2 more may have become jobs"
    )


async def test_one_slow_job_stops_the_reading_in_order(api: FakeApi) -> None:
    """What is under way or held never exceeds the window; when the job ends, everything goes on."""
    waiting: list[ServerConnection] = []
    first = f"{1:032x}"

    async def all_but_the_first(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in message.get("job_ids", []):
            if job_id == first:
                waiting.append(socket)
            else:
                await socket.send(frame(record(job_id)))

    api.pushing = all_but_the_first
    run = Run(api, *(numbered(10) for _ in range(20)), places=40)
    running = asyncio.create_task(run())

    async def stuck() -> bool:
        return run.sending.accepted == 40 and len(api.subscribed()) == 40

    await eventually(stuck, what="a full window")
    # The chunk that finds no room has been read, none after it.
    assert (run.read, run.printed) == (50, [])
    await waiting[0].send(frame(record(first)))
    assert len(await running) == 200


async def test_as_they_come_a_slow_job_delays_no_other(api: FakeApi) -> None:
    """All others are printed before it."""
    waiting: list[ServerConnection] = []
    first = f"{1:032x}"

    async def all_but_the_first(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in message.get("job_ids", []):
            if job_id == first:
                waiting.append(socket)
            else:
                await socket.send(frame(record(job_id)))

    api.pushing = all_but_the_first
    run = Run(api, *(numbered(10) for _ in range(20)), in_order=False, places=40)
    running = asyncio.create_task(run())
    await eventually(lambda: len(run.printed) == 199, what="all others")
    await waiting[0].send(frame(record(first)))
    assert (await running)[-1].job_id == first


async def test_a_printer_that_stands_still_stops_the_reading(api: FakeApi) -> None:
    """What waits to be printed keeps its place, so a slow reader of the results costs no memory."""
    run = Run(api, *(numbered(10) for _ in range(20)), in_order=False, places=40)
    run.printing.clear()
    running = asyncio.create_task(run())
    await eventually(lambda: run.sending.accepted == 40, what="a full window")
    assert run.sending.unprinted == 40
    run.printing.set()
    assert len(await running) == 200


async def test_refused_lines_stand_in_their_places(api: FakeApi) -> None:
    """Those that cannot be sent, and those that the API refuses, without the place in its request."""

    def picky(call: Call) -> Answer:
        answer = api.accept(call)
        for index, entry in enumerate(call.json["inputs"]) if call.path == "/v1/infer/batch" else ():
            if entry["text"] == "bad":
                fault = {"pointer": f"/inputs/{index}/text", "detail": "is bad"}
                error = problem(400, "invalid_request").body | {"errors": [fault]}
                answer.body["jobs"][index] = {"index": index, "error": error}
        return answer

    api.answerer = picky
    chunk: Items = [*asked("a", "bad"), Unreadable(text="{", detail="the line is no JSON"), *asked("b")]
    run = Run(api, chunk)
    first, bad, unreadable, last = await run()
    assert (first.done, last.done) == (True, True)
    assert bad.fault is not None
    assert (bad.fault.code, bad.fault.detail, bad.job_id) == ("invalid_request", "/text is bad", None)
    assert unreadable.fault is not None
    assert (unreadable.fault.code, unreadable.fault.detail) == ("invalid_request", "the line is no JSON")
    assert run.sending.failed == 2


async def test_lines_that_ask_for_different_things_keep_their_order(api: FakeApi) -> None:
    """They go in requests of their kind, and every option arrives."""
    chunk = [*asked("a", "b"), *asked("c", "d", priority="bulk", deadline_ms=7), *asked("e")]
    assert [outcome.text for outcome in await Run(api, chunk)()] == list("abcde")
    sent = [entry for call in api.of("/v1/infer/batch") for entry in call.json["inputs"]]
    assert sorted(sent, key=lambda entry: str(entry["text"])) == [
        {"text": "a"}, {"text": "b"}, {"text": "c", "priority": "bulk", "deadline_ms": 7},
        {"text": "d", "priority": "bulk", "deadline_ms": 7}, {"text": "e"},
    ]  # fmt: skip  # as they were sent


async def test_a_job_whose_end_cannot_be_known_has_its_line(api: FakeApi) -> None:
    """It keeps its id; the others are done."""
    lost = f"{2:032x}"

    async def forget(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in message.get("job_ids", []):
            error = {"type": "error", "code": "not_found", "detail": "gone", "job_id": job_id}
            await socket.send(json.dumps(error) if job_id == lost else frame(record(job_id)))

    api.pushing = forget
    outcomes = await Run(api, numbered(3))()
    assert [outcome.done for outcome in outcomes] == [True, False, True]
    assert (outcomes[1].job_id, outcomes[1].fault and outcomes[1].fault.code) == (lost, "not_found")


async def test_a_key_that_is_refused_ends_the_run(api: FakeApi) -> None:
    """It would be so for every text."""
    api.answerer = lambda call: problem(401, "unauthorized")
    for chunk in (numbered(3), numbered(1)):
        with pytest.raises(BaseExceptionGroup) as caught:
            await Run(api, chunk)()
        assert isinstance(first_of(caught.value), KeyRefused)


async def test_once_the_api_is_out_of_reach_nothing_more_is_read(api: FakeApi) -> None:
    """Else every further window would wait out the patience; what was sent has its line."""
    api.answerer = lambda call: Answer(status=None)
    run = Run(api, *(numbered(10) for _ in range(50)), places=20, patience_s=0.3)
    outcomes = await run()
    assert run.sending.unreachable
    assert len(outcomes) == 20
    assert {outcome.fault and outcome.fault.code for outcome in outcomes} == {"unreachable"}
    assert run.read == 30


async def test_what_a_quota_never_lets_pass_at_once_goes_in_parts(api: FakeApi) -> None:
    """A batch is halved until it passes; every text becomes one job, each request under a key of its own."""

    def strict(call: Call) -> Answer:
        if call.path == "/v1/infer/batch" and len(call.json["inputs"]) > 5:
            return problem(429, "quota_exceeded", retry_after=30)
        return api.accept(call)

    api.answerer = strict
    outcomes = await Run(api, numbered(43))()
    assert all(outcome.done for outcome in outcomes)
    calls = api.of("/v1/infer/batch")
    taken = [
        entry["text"] for call in calls if len(call.json["inputs"]) <= 5 for entry in call.json["inputs"]
    ]
    assert taken == [f"text {number}" for number in range(43)]
    assert len({call.key for call in calls}) == len(calls)
