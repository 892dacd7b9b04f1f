"""Submits: what is tried again, when, and under which key."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import inferq
from inferq.sdk import patience
from tests.fakeapi import Answer, Call, FakeApi, fake_api, problem, record
from tests.support import eventually


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """An API that takes everything, until a test says otherwise."""
    async with fake_api() as it:
        yield it


def in_turn(api: FakeApi, *answers: Answer) -> None:
    """Answer submits with these, and then as usual."""
    left = list(answers)

    def answer(call: Call) -> Answer:
        return left.pop(0) if left and call.path.startswith("/v1/infer") else api.accept(call)

    api.answerer = answer


@pytest.mark.parametrize(
    "first",
    [
        problem(503, "unavailable"),
        problem(429, "quota_exceeded"),
        Answer(status=502, body=b"<html>"),
        Answer(status=None),
    ],
    ids=["unavailable", "quota", "proxy", "broken"],
)  # fmt: skip  # answers side by side
async def test_a_submit_is_tried_again_under_its_key(api: FakeApi, first: Answer) -> None:
    """After a refusal for load, a proxy's error or a connection that broke: the same body under the same key."""
    in_turn(api, first, first)
    async with inferq.AsyncClient(api.url) as client:
        job = await client.submit("x", model="m", deadline_ms=5, priority="bulk", webhook="https://h")
    calls = api.of("/v1/infer")
    assert job.job_id == f"{1:032x}"
    assert len(calls) == 3
    assert len({(call.key, call.body) for call in calls}) == 1
    assert len(calls[0].key) == 32
    assert calls[0].json == {
        "text": "x",
        "model": "m",
        "deadline_ms": 5,
        "priority": "bulk",
        "webhook": "https://h",
    }
    assert "authorization" not in calls[0].headers


async def test_each_submit_has_a_key_of_its_own(api: FakeApi) -> None:
    """Unless one is given, which goes out as it is; one that cannot be sent is refused here."""
    async with inferq.AsyncClient(api.url, api_key="alice-0123456789") as client:
        await client.submit("x")
        await client.submit("x")
        await client.submit("x", idempotency_key="mine")
        with pytest.raises(ValueError, match="visible ASCII"):
            await client.submit("x", idempotency_key="not mine")
    keys = [call.key for call in api.of("/v1/infer")]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"
    assert {call.headers["authorization"] for call in api.calls} == {"Bearer alice-0123456789"}


@pytest.mark.alone
async def test_retry_after_is_respected(api: FakeApi) -> None:
    """The next try does not come before it."""
    in_turn(api, problem(503, "queue_full", retry_after=1))
    async with inferq.AsyncClient(api.url) as client:
        await client.submit("x")
    first, second = api.of("/v1/infer")
    assert 1.0 <= second.at_s - first.at_s < 3.0


async def test_patience_ends_with_the_last_refusal(api: FakeApi) -> None:
    """At once, where the server asks for a wait that is longer than what is left."""
    in_turn(api, problem(503, "queue_full", retry_after=20))
    async with inferq.AsyncClient(api.url, timeout_s=5.0) as client:
        async with asyncio.timeout(3.0):
            with pytest.raises(inferq.Busy) as caught:
                await client.submit("x")
    assert (caught.value.code, caught.value.retry_after_s) == ("queue_full", 20.0)
    assert len(api.calls) == 1


async def test_a_run_that_is_not_even_accepted_in_time_says_so(api: FakeApi) -> None:
    """The caller's own time ends it, whatever is left of the patience."""
    in_turn(api, *[problem(503, "queue_full", retry_after=1)] * 10)
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises(inferq.WaitTimeout, match=r"not been accepted after 0\.2 s"):
            await client.run("x", timeout_s=0.2)


async def test_nobody_there_is_told_when_patience_ends() -> None:
    """With the address, and without user, password or key."""
    async with fake_api() as api:
        url = api.url
    async with inferq.AsyncClient(
        url.replace("//", "//user:secret@"), api_key="k" * 20, timeout_s=0.5
    ) as client:
        with pytest.raises(inferq.Unreachable) as caught:
            await client.submit("x")
        with pytest.raises(inferq.Unreachable):
            await client.check()
    assert url in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "kkk" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, inferq.BadRequest), (401, inferq.KeyRefused), (403, inferq.Forbidden), (409, inferq.AlreadyFinal),
        (413, inferq.BadRequest), (422, inferq.KeyReused), (500, inferq.ServerFault),
    ],
)  # fmt: skip  # one case for each
async def test_what_will_not_pass_is_not_tried_again(
    api: FakeApi, status: int, kind: type[Exception]
) -> None:
    """The caller has it at once."""
    in_turn(api, problem(status, "c"))
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises(kind):
            await client.submit("x")
    assert len(api.calls) == 1


async def test_no_more_requests_are_under_way_than_allowed(api: FakeApi) -> None:
    """Further submits wait for their turn, and lose none of their patience."""
    going, most, open_ = 0, 0, asyncio.Event()

    async def answer(call: Call) -> Answer:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await open_.wait()
        going -= 1
        return api.accept(call)

    api.answerer = answer
    async with inferq.AsyncClient(api.url, max_in_flight=3) as client, asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(client.submit(str(number)))
        await eventually(lambda: going == 3, what="three requests")
        open_.set()
    assert (most, len(api.calls)) == (3, 10)


async def test_many_texts_go_in_batches_and_come_back_in_order(api: FakeApi) -> None:
    """256 a request, whatever they come from; each batch has a key of its own."""
    texts = [str(number) for number in range(600)]

    async def coming() -> AsyncIterator[str]:
        for text in texts:
            yield text

    async with inferq.AsyncClient(api.url) as client:
        for source in (texts, (text for text in texts), coming()):
            api.calls.clear()
            outcomes = await client.submit_many(source, priority="bulk", idempotency_key="mine")
            calls = sorted(api.of("/v1/infer/batch"), key=lambda call: call.key)
            sizes = [len(call.json["inputs"]) for call in calls]
            assert (sizes, [call.key for call in calls]) == ([256, 256, 88], ["mine.0", "mine.1", "mine.2"])
            assert [one["text"] for call in calls for one in call.json["inputs"]] == texts
            assert {one["priority"] for call in calls for one in call.json["inputs"]} == {"bulk"}
            assert len({one.job_id for one in outcomes if isinstance(one, inferq.Job)}) == 600
        assert await client.submit_many([]) == []


def refused(index: int, status: int, code: str) -> dict[str, Any]:
    """Write what a batch's answer says of a refused input."""
    return {
        "index": index,
        "error": {"status": status, "code": code, "detail": "d", "title": "t", "type": "about:blank"},
    }


async def test_of_a_batch_those_alone_are_sent_again_that_were_refused_for_load(api: FakeApi) -> None:
    """In a request of their own, under another key; each text comes back with what became of it, in its place."""

    def answer(call: Call) -> Answer:
        inputs = [one["text"] for one in call.json["inputs"]]
        full = len(api.of("/v1/infer/batch")) < 3
        jobs = [
            refused(index, 400, "invalid_request")
            if text == "bad"
            else refused(index, *((503, "queue_full") if text == "a" else (429, "quota_exceeded")))
            if full and text in {"a", "b"}
            else api.job(index)
            for index, text in enumerate(inputs)
        ]
        return Answer(status=202, body={"jobs": jobs, "accepted": 1, "refused": 1})

    api.answerer = answer
    async with inferq.AsyncClient(api.url) as client:
        a, x, bad, b = await client.submit_many(["a", "x", "bad", "b"], idempotency_key="k")
    assert [[one["text"] for one in call.json["inputs"]] for call in api.calls] == [
        ["a", "x", "bad", "b"], ["a", "b"], ["a", "b"],
    ]  # fmt: skip  # requests side by side
    assert [call.key for call in api.calls] == ["k.0", "k.0.1", "k.0.2"]
    assert isinstance(bad, inferq.Refusal)
    assert (bad.index, bad.code) == (2, "invalid_request")
    assert all(isinstance(one, inferq.Job) for one in (a, x, b))


async def test_a_batch_of_which_nothing_was_taken_is_read_input_by_input(api: FakeApi) -> None:
    """Whatever the status of its answer: here that of the first refusal."""
    jobs = [refused(0, 400, "invalid_request"), refused(1, 503, "queue_full")]
    in_turn(api, Answer(status=400, body={"status": 400, "code": "invalid_request", "jobs": jobs}))
    async with inferq.AsyncClient(api.url) as client:
        bad, full = await client.submit_many(["", "x"])
    assert isinstance(bad, inferq.Refusal)
    assert isinstance(full, inferq.Job)
    assert [one["text"] for one in api.calls[1].json["inputs"]] == ["x"]


@pytest.mark.parametrize(
    "first", [problem(503, "unavailable"), Answer(status=None)], ids=["refused", "broken"]
)
async def test_a_batch_that_was_not_looked_at_is_sent_again_as_it_was(api: FakeApi, first: Answer) -> None:
    """Under the same key: it may have been taken after all."""
    in_turn(api, first)
    async with inferq.AsyncClient(api.url) as client:
        await client.submit_many(["a", "b"])
    one, two = api.of("/v1/infer/batch")
    assert (one.key, one.body) == (two.key, two.body)


async def test_when_nothing_is_accepted_any_more_every_text_has_its_refusal(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were taken before are kept, and no batch is tried longer than the others."""
    monkeypatch.setattr(patience, "MOST_S", 0.1)
    taken = {"0"}

    def answer(call: Call) -> Answer:
        inputs = [one["text"] for one in call.json["inputs"]]
        jobs = [
            api.job(i) if text in taken else refused(i, 503, "queue_full") for i, text in enumerate(inputs)
        ]
        taken.clear()
        return Answer(status=202, body={"jobs": jobs, "accepted": 1, "refused": 1})

    api.answerer = answer
    async with inferq.AsyncClient(api.url, timeout_s=0.5) as client:
        async with asyncio.timeout(5.0):
            first, *others = await client.submit_many([str(number) for number in range(600)])
    assert isinstance(first, inferq.Job)
    assert [one.index for one in others if isinstance(one, inferq.Refusal)] == list(range(1, 600))
    assert {one.code for one in others if isinstance(one, inferq.Refusal)} == {"queue_full"}


async def test_texts_that_are_slow_to_come_take_no_patience(api: FakeApi) -> None:
    """What comes after long is tried for as long as what came first."""
    patience_s = 0.5
    loop = asyncio.get_running_loop()

    def answer(call: Call) -> Answer:
        return problem(503, "queue_full") if len(api.calls) == 2 else api.accept(call)

    async def coming() -> AsyncIterator[str]:
        for number in range(257):
            yield str(number)
        # The last came in time to send the others, and goes by itself when no more come.
        begun_s = loop.time()
        await eventually(lambda: loop.time() - begun_s > 2 * patience_s, what="the end of patience")

    api.answerer = answer
    async with inferq.AsyncClient(api.url, timeout_s=patience_s) as client:
        outcomes = await client.submit_many(coming())
    assert [type(one) for one in outcomes] == [inferq.Job] * 257
    assert len(api.calls) == 3


async def test_a_key_that_is_refused_ends_the_call(api: FakeApi) -> None:
    """It is so for every text."""
    in_turn(api, *[problem(401, "unauthorized")] * 10)
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises(inferq.KeyRefused):
            await client.submit_many([str(number) for number in range(1000)])


@pytest.mark.parametrize("texts", [["a", 5], (1 / 0 for _ in "a"), "abc"], ids=["number", "raises", "string"])
async def test_texts_that_are_none_are_refused_here(api: FakeApi, texts: Any) -> None:
    """With the error itself; a string is no list of texts."""
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises((TypeError, ZeroDivisionError)):
            await client.submit_many(texts)
    assert api.calls == []


async def test_a_text_too_large_for_a_request_is_refused_alone(api: FakeApi) -> None:
    """Without being sent; the others are accepted, and alone it is an error at once."""
    huge = "x" * (64 * 2**10)
    async with inferq.AsyncClient(api.url) as client:
        before, large, after = await client.submit_many(["a", huge, "b"])
        assert isinstance(large, inferq.Refusal)
        assert isinstance(before, inferq.Job)
        assert isinstance(after, inferq.Job)
        assert (large.index, large.code) == (1, "body_too_large")
        assert [text["text"] for text in api.calls[0].json["inputs"]] == ["a", "b"]
        assert [type(one).__name__ for one in await client.submit_many([huge])] == ["Refusal"]
        with pytest.raises(inferq.BadRequest, match="body_too_large"):
            await client.submit(huge)
    assert len(api.calls) == 1


@pytest.mark.parametrize("body", [b"<html>", json.dumps({"ok": True}).encode()])
async def test_an_answer_that_is_none_is_the_deployments_fault(api: FakeApi, body: bytes) -> None:
    """Whatever listens there, it is not the API."""
    api.answerer = lambda call: Answer(body=body)
    async with inferq.AsyncClient(api.url) as client:
        for call in (client.submit("x"), client.record("x"), client.cancel("x")):
            with pytest.raises(inferq.ServerFault, match="not_the_api"):
                await call
        (refusal,) = await client.submit_many(["x"])
        assert isinstance(refusal, inferq.Refusal)
    api.answerer = lambda call: Answer(body=b"[]")
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises(inferq.ServerFault):
            await client.stats()


async def test_a_cancellation_whose_answer_was_lost_is_found(api: FakeApi) -> None:
    """The second try hears that the job is final, and the record says that it was ours; another end stays an error."""
    status = "cancelled"

    def answer(call: Call) -> Answer:
        if call.method == "GET":
            return Answer(body=record("j", status))
        return Answer(status=None) if len(api.calls) == 1 else problem(409, "already_final")

    api.answerer = answer
    async with inferq.AsyncClient(api.url) as client:
        assert (await client.cancel("j")).status == "cancelled"
        with pytest.raises(inferq.AlreadyFinal):
            await client.cancel("j")
        api.calls.clear()
        status = "done"
        with pytest.raises(inferq.AlreadyFinal):
            await client.cancel("j")


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ws://h"}, {"url": "h:80"}, {"url": "http://"}, {"url": "http://["}, {"url": "http://h:99999"},
        {"api_key": "a b"}, {"api_key": "x" * 256},
        {"timeout_s": -1.0}, {"timeout_s": float("nan")}, {"max_in_flight": 0}, {"max_in_flight": 1025},
    ],
)  # fmt: skip  # one case for each
def test_what_a_client_cannot_be_made_of_is_refused(wrong: dict[str, Any]) -> None:
    """With a text that names it, and never the key."""
    for kind in (inferq.AsyncClient, inferq.Client):
        with pytest.raises(ValueError, match=r"URL|key must|timeout_s must") as caught:
            kind(**wrong)
        assert "xxx" not in str(caught.value)


def test_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are not given."""
    monkeypatch.setenv("INFERQ_URL", "https://api.example:1")
    monkeypatch.setenv("INFERQ_API_KEY", "a b")
    with pytest.raises(ValueError, match="key must"):
        inferq.Client()
    assert inferq.AsyncClient(api_key="given").url == "https://api.example:1"
    monkeypatch.delenv("INFERQ_URL")
    assert inferq.AsyncClient(api_key="given").url == "http://127.0.0.1:8080"
