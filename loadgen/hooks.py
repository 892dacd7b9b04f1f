"""Webhooks to a receiver that refuses each twice and then takes it: all are delivered, by three tries each."""

import base64
import os
import time
from typing import Final

import msgspec

from inferq.ports import LOOPBACK
from inferq.webhooks.signing import secret_of
from loadgen.client import Client
from loadgen.companion import companion
from loadgen.deployment import deployed
from loadgen.figures import Figure, equal
from loadgen.hookreceiver import Receiver, Taken, Tell
from loadgen.parts import Say

MODEL: Final = "simulated:1,0.1"
REFUSALS: Final = 2
RETRY_MS: Final = 100
AT_ONCE: Final = 64
ACCEPTED: Final = 202
START_WITHIN_S: Final = 30.0


class _Entry(msgspec.Struct):
    job_id: str = ""


class _Answer(msgspec.Struct):
    jobs: list[_Entry]


async def figures(broker: str, *, webhooks: int, within_s: float, say: Say) -> list[Figure]:
    """Submit so many jobs with a webhook each, and count what the receiver got."""
    deployment_secret = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
    settings = {
        "webhook_hosts": LOOPBACK,
        "webhook_secret": deployment_secret,
        "webhook_retry_ms": str(RETRY_MS),
    }
    # Jobs come in without a key, whose webhooks have a secret of their own.
    order = Receiver(secret=secret_of(deployment_secret, ""), refusals=REFUSALS)
    async with (
        companion("loadgen.hookreceiver", order) as receiver,
        deployed(broker, model=MODEL, **settings) as ours,
    ):
        url = await receiver.hear(str, within_s=START_WITHIN_S)
        begun = time.monotonic()
        jobs = await _submitted(ours.url, url, webhooks)
        receiver.tell(Tell(webhooks=len(jobs), within_s=within_s))
        taken = await receiver.hear(Taken, within_s=within_s + START_WITHIN_S)
        took_s = time.monotonic() - begun
    say(
        f"  {broker}: {len(jobs)} jobs, {taken.taken} webhooks taken, tries {taken.tries}, {taken.wrong} wrong"
    )
    where = f"{webhooks} webhooks, each refused {REFUSALS} times, {broker}"
    return [
        equal(f"{where}, jobs accepted", len(jobs), webhooks, "jobs"),
        equal(f"{where}, jobs whose webhook was not delivered", len(jobs - set(taken.jobs)), 0, "jobs"),
        equal(
            f"{where}, delivered by {REFUSALS + 1} tries",
            taken.tries.get(str(REFUSALS + 1), 0),
            webhooks,
            "webhooks",
        ),
        equal(f"{where}, badly signed or otherwise wrong", taken.wrong, 0, "requests"),
        Figure(name=f"{where}, from the first submit to the last one taken", value=took_s, unit="s"),
    ]


async def _submitted(api: str, url: str, count: int) -> set[str]:
    """Submit jobs in batches; return the ids of those that were accepted."""
    client, jobs = Client(api), set()
    try:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(count, first + AT_ONCE))
            inputs = [{"text": f"a fine film, number {number}", "webhook": url} for number in numbers]
            reply = await client.request("POST", "/v1/infer/batch", msgspec.json.encode({"inputs": inputs}))
            if reply.status == ACCEPTED:
                found = msgspec.json.decode(reply.body, type=_Answer).jobs
                jobs |= {entry.job_id for entry in found if entry.job_id}
    finally:
        await client.close()
    return jobs
