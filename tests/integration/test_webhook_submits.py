"""Webhooks at the door of a real ingress, and on to the receiver: fields, batches, repeats, keys, limits."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from inferq.apikeys import ANYONE, Caller
from inferq.errors import OperatorError, Unavailable
from inferq.keyring import KeyRing
from inferq.messages import decode_job
from inferq.settings import load
from inferq.steps import Origin, start
from inferq.webhooks.guard import parse_hosts
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.policy import Policy
from inferq.webhooks.signing import secret_of
from ingress.requests import InferRequest
from ingress.webhookdoor import MOST_COUNTS, WebhookDoor
from tests.answers import bearer, problem
from tests.deployment import Deployment, Inbox, finished
from tests.hooking import MASTER, SECRET, becomes, many_ended, sending
from tests.receiver import receiving
from tests.serving import ready, serving
from tests.support import eventually

HOOKS = {"INFERQ_WEBHOOK_SECRET": MASTER, "INFERQ_WEBHOOK_HOSTS": "127.0.0.1"}
ALICE, BOB = "alice-0123456789", "bob-0123456789ab"


@asynccontextmanager
async def served(it: Deployment, **options: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run an ingress that takes webhooks."""
    async with serving(it, **(HOOKS | options)) as client:
        await eventually(lambda: ready(client), what="readiness")
        yield client


async def finish_all(it: Deployment, jobs: int) -> None:
    """End the jobs that wait, as a batcher does."""
    broker, inbox = await it.broker(limit_jobs=10_000), Inbox()
    consumer = await it.consumer(broker, inbox)
    await eventually(lambda: len(inbox.got) == jobs, what=f"{jobs} jobs")
    origins = [
        Origin(job=decode_job(delivery.body), queue=delivery.queue, message=delivery.body)
        for delivery in inbox.got
    ]
    await it.store.apply([start(origin) for origin in origins])
    await it.store.apply([finished(origin) for origin in origins])
    await consumer.ack(inbox.got)


async def test_from_submit_to_receiver(either: Deployment) -> None:
    """A job that names a webhook is told there, on either broker; its record never shows the URL."""
    async with receiving() as receiver, served(either) as client, sending(either):
        answer = await client.post(
            "/v1/infer", json={"text": "good", "webhook": receiver.url("/h?key=S3CRET")}
        )
        assert answer.status_code == 202, answer.text
        job_id = answer.json()["job_id"]
        record = (await client.get(f"/v1/jobs/{job_id}")).json()
        assert record["webhook"] == {
            "state": "pending", "attempts": 0, "last_status": None, "last_error": None, "next_at": None,
        }  # fmt: skip  # as it is shown
        await finish_all(either, 1)
        await becomes(either, job_id, "delivered")
        shown = (await client.get(f"/v1/jobs/{job_id}")).text
    assert "S3CRET" not in shown
    assert receiver.got[0].verified(SECRET)["job_id"] == job_id


@pytest.mark.parametrize(
    ("webhook", "detail"),
    [
        (5, "must be a URL in a string of up to 2000 characters, or an empty one for none"),
        (
            "https://a/" + "x" * 2000,
            "must be a URL in a string of up to 2000 characters, or an empty one for none",
        ),
        ("http://a.example/", "must begin with https:// (http:// is for hosts in INFERQ_WEBHOOK_HOSTS)"),
        ("https://user:S3CRET@a.example/", "must hold no user or password"),
        (
            "https://10.0.0.1/",
            "must not lead to an address that is not public (but for hosts in INFERQ_WEBHOOK_HOSTS)",
        ),
    ],
)
async def test_what_is_no_webhook_is_refused(streams: Deployment, webhook: Any, detail: str) -> None:
    """A 400 that points to the field, in a batch to its input alone; the URL is not repeated."""
    async with served(streams) as client:
        response = await client.post("/v1/infer", json={"text": "a", "webhook": webhook})
        document = problem(response, 400, "invalid_request")
        assert document["errors"] == [{"pointer": "/webhook", "detail": detail}]
        bad, good = {"text": "a", "webhook": webhook}, {"text": "a", "webhook": "https://a.example/"}
        response = await client.post("/v1/infer/batch", json={"inputs": [good, bad, {"text": "b"}]})
        assert response.status_code == 202, response.text
        (refused,) = [item for item in response.json()["jobs"] if "error" in item]
        assert (refused["index"], refused["error"]["code"]) == (1, "invalid_request")
        assert refused["error"]["errors"] == [{"pointer": "/inputs/1/webhook", "detail": detail}]
        assert "S3CRET" not in response.text


async def test_without_a_secret_there_are_no_webhooks(streams: Deployment) -> None:
    """The refusal says what the operator has to set; null is no webhook, and so is an empty one."""
    async with served(streams, INFERQ_WEBHOOK_SECRET="") as client:
        response = await client.post("/v1/infer", json={"text": "a", "webhook": "https://a.example/"})
        document = problem(response, 400, "invalid_request")
        assert "INFERQ_WEBHOOK_SECRET" in document["errors"][0]["detail"]
        for none in (None, ""):
            response = await client.post("/v1/infer", json={"text": "a", "webhook": none})
            assert response.status_code == 202, response.text


async def test_each_key_signs_with_its_own_secret(streams: Deployment) -> None:
    """A key's webhook is that of its jobs which say nothing of one, be it an empty one; nobody can forge another's."""
    async with receiving() as receiver:
        keys = f"alice:{ALICE}:webhook={receiver.url('/alice?a=1:2')},bob:{BOB}"
        async with served(streams, INFERQ_API_KEYS=keys) as client, sending(streams):
            for key, fields in (
                (ALICE, {}), (ALICE, {"webhook": receiver.url("/own")}), (BOB, {"webhook": receiver.url("/bob")}),
                (BOB, {}), (ALICE, {"webhook": ""}),
            ):  # fmt: skip  # callers side by side
                response = await client.post("/v1/infer", json={"text": "a", **fields}, headers=bearer(key))
                assert response.status_code == 202, response.text
            batch = {
                "inputs": [
                    {"text": "a"},
                    {"text": "b", "webhook": receiver.url("/batch")},
                    {"text": "c", "webhook": ""},
                ]
            }
            response = await client.post("/v1/infer/batch", json=batch, headers=bearer(ALICE))
            assert response.json()["accepted"] == 3
            silent = response.json()["jobs"][2]["job_id"]
            assert "webhook" not in (await client.get(f"/v1/jobs/{silent}", headers=bearer(ALICE))).json()
            await finish_all(streams, 8)
            await receiver.has(5)
    secrets = {name: secret_of(MASTER, name) for name in ("alice", "bob")}
    assert sorted(got.path for got in receiver.got) == ["/alice?a=1:2"] * 2 + ["/batch", "/bob", "/own"]
    for got in receiver.got:
        hers, his = ("bob", "alice") if got.path == "/bob" else ("alice", "bob")
        got.verified(secrets[hers])
        with pytest.raises(Exception, match="No matching signature"):
            got.verified(secrets[his])


async def test_a_repeat_is_told_once(streams: Deployment) -> None:
    """The same idempotency key is the same job, and the same event."""
    async with receiving() as receiver, served(streams) as client, sending(streams):
        body, headers = {"text": "a", "webhook": receiver.url()}, {"Idempotency-Key": "k"}
        answers = [await client.post("/v1/infer", json=body, headers=headers) for _ in range(3)]
        assert len({answer.json()["job_id"] for answer in answers}) == 1
        await finish_all(streams, 1)
        await becomes(streams, answers[0].json()["job_id"], "delivered")
    assert len(receiver.got) == 1


async def test_a_cancelled_job_is_told(streams: Deployment) -> None:
    """With its frame, as for every other end."""
    async with receiving() as receiver, served(streams) as client, sending(streams):
        answer = await client.post("/v1/infer", json={"text": "a", "webhook": receiver.url()})
        await client.delete(answer.headers["location"])
        await receiver.has(1)
    assert receiver.got[0].verified(SECRET)["type"] == "job.cancelled"


async def test_too_many_that_wait_are_not_added_to(streams: Deployment) -> None:
    """503 for a job with a webhook, once the count is looked at, of its key or of all; another does not ask for it."""
    outbox = Outbox(streams.redis, streams.names)
    door = WebhookDoor(Policy(hosts=parse_hosts(""), secret=True), outbox, most_waiting=5, most_of_key=3)
    asked, plain = InferRequest(text="a", webhook="https://a.example/"), InferRequest(text="a")
    eve, alice = Caller(name="eve"), Caller(name="alice")
    await door.look(eve)
    assert door.choose(asked, eve, resumed=False) == asked.webhook
    await many_ended(streams, "https://a.example/", 3, "eve")

    async def refused(caller: Caller) -> Unavailable | None:
        await door.look(caller)
        try:
            door.choose(asked, caller, resumed=False)
        except Unavailable as error:
            return error
        return None

    error = await eventually(lambda: refused(eve), what="a refusal")
    assert error.detail == "3 webhooks of this key are not delivered yet, and more are not taken"
    assert error.headers["Retry-After"] == "60"
    assert door.choose(plain, eve, resumed=False) == ""
    assert door.choose(asked, eve, resumed=True) == asked.webhook
    assert [await refused(caller) for caller in (alice, ANYONE)] == [None, None]
    await many_ended(streams, "https://a.example/", 2)
    for caller in (alice, ANYONE):
        error = await eventually(lambda: refused(caller), what="a refusal")  # noqa: B023  # awaited in the same turn
        assert error.detail == "5 webhooks are not delivered yet, and more are not taken"


async def test_what_is_counted_of_callers_is_bounded(streams: Deployment) -> None:
    """However many keys there were; whoever comes is counted anew."""
    door = WebhookDoor(Policy(hosts=parse_hosts(""), secret=True), Outbox(streams.redis, streams.names))
    for number in range(2 * MOST_COUNTS):
        await door.look(Caller(name=f"k{number}"))
    assert len(door._counts) <= MOST_COUNTS


@pytest.mark.parametrize(
    ("webhook", "environ", "complaint"),
    [
        ("http://a.example/", {}, "the webhook of the key alice must begin with https://"),
        (
            "https://10.0.0.1/",
            {},
            "the webhook of the key alice must not lead to an address that is not public",
        ),
        (
            "https://a.example/",
            {"INFERQ_WEBHOOK_SECRET": ""},
            "the webhook of the key alice is not taken here",
        ),
    ],
)
async def test_a_keys_webhook_is_checked_at_the_start(
    webhook: str, environ: dict[str, str], complaint: str
) -> None:
    """Where it is not allowed the service does not start, and says why without the key."""
    settings, _ = load(
        {"INFERQ_API_KEYS": f"alice:{ALICE}:webhook={webhook}", "INFERQ_WEBHOOK_SECRET": MASTER, **environ}
    )
    with pytest.raises(OperatorError, match=f"^INFERQ_API_KEYS: {complaint}") as caught:
        KeyRing.of(settings)
    assert ALICE not in str(caught.value)


async def test_a_jobs_webhook_outlives_its_ingress(streams: Deployment) -> None:
    """What the message says of it is all that a batcher needs."""
    async with served(streams) as client:
        await client.post("/v1/infer", json={"text": "a", "webhook": "https://a.example/x"})
    broker, inbox = await streams.broker(), Inbox()
    await streams.consumer(broker, inbox)
    await eventually(lambda: inbox.got, what="the job")
    assert json.loads(inbox.got[0].body)["webhook"] == "https://a.example/x"
