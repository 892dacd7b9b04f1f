"""An ingress and a notifier in the test's own process, and hands that do what a batcher does, when a test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from inferq.broker.base import Consumer
from inferq.messages import Delivery, decode_job
from inferq.ports import LOOPBACK
from inferq.steps import Origin, start
from tests.deployment import Deployment, Inbox, finished
from tests.notifying import notifying
from tests.proxy import Proxy, proxied
from tests.serving import ready, serving
from tests.support import eventually


@dataclass(kw_only=True)
class SdkRig:
    """A deployment without a batcher; ``proxy`` stands before its notifier."""

    url: str
    streams: Deployment
    inbox: Inbox
    proxy: Proxy
    consumer: Consumer

    async def start(self, *job_ids: str) -> None:
        """Let jobs run."""
        for origin in await self._origins(*job_ids):
            await self.streams.store.apply([start(origin)])

    async def finish(self, *job_ids: str) -> None:
        """Let jobs run and be done, each labelled with its text."""
        for origin in await self._origins(*job_ids):
            await self.streams.store.apply([start(origin), finished(origin, label=origin.job.text)])
        await self.consumer.ack([self._delivery(job_id) for job_id in job_ids])

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let whatever comes be done, one after the other."""

        async def work() -> None:
            done = 0
            while True:
                come = self.inbox.ids
                for job_id in come[done:]:
                    await self.finish(job_id)
                done = len(come)
                await asyncio.sleep(0.005)

        working = asyncio.create_task(work())
        try:
            yield
        finally:
            working.cancel()
            await asyncio.wait([working])

    def _delivery(self, job_id: str) -> Delivery:
        return self.inbox.got[self.inbox.ids.index(job_id)]

    async def _origins(self, *job_ids: str) -> list[Origin]:
        await self.inbox.receives(*job_ids)
        return [
            Origin(job=decode_job(each.body), queue=each.queue, message=each.body)
            for each in map(self._delivery, job_ids)
        ]


@asynccontextmanager
async def sdk_rig(
    streams: Deployment, *, api_keys: str = "", prefetch: int = 1000, **options: str
) -> AsyncIterator[SdkRig]:
    """Run one; ``options`` are further settings of its ingress."""
    inbox = Inbox()
    broker = await streams.broker()
    consumer = await streams.consumer(broker, inbox, prefetch=prefetch)
    if api_keys:
        options["INFERQ_API_KEYS"] = api_keys
    async with (
        notifying(streams, api_keys=api_keys) as notifier,
        proxied(notifier.url("")) as (proxy, push),
        serving(streams, INFERQ_PUBLIC_NOTIFIER_URL=push, **options) as client,
    ):
        await eventually(lambda: ready(client), what="readiness")
        url = f"http://{LOOPBACK}:{client.base_url.port}"
        yield SdkRig(url=url, streams=streams, inbox=inbox, proxy=proxy, consumer=consumer)
