"""The publisher against a real broker: order, refusals, losses, and what it leaves to others."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

import inferq.broker.publisher as publisher_module
from inferq.broker.publisher import WRITE_BYTES, Publisher, Returned, publisher_over
from inferq.broker.sieved_connection import PublishingConnection
from inferq.errors import QueueFull, Unavailable
from inferq.rabbitnode import PrivateRabbit
from tests.proxy import proxied
from tests.rabbitalarm import memory_alarm
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

# Long enough that a refusal before it is not one for want of a confirm.
LONG_S = 60.0
# What the broker's default exchange is called.
DIRECT = ""


@dataclass(kw_only=True)
class Press:
    """A publisher, and a queue of this test to publish to."""

    publisher: Publisher
    connection: PublishingConnection
    queue: str
    # Straight to the broker, to see what is there.
    watch: AbstractChannel

    async def publish(self, body: bytes, *, queue: str | None = None, exchange: str = DIRECT) -> None:
        """Publish a message."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.publisher.publish(exchange, self.queue if queue is None else queue, body, "job", waiter)
        await waiter

    async def bodies(self) -> list[bytes]:
        """Take all that is in the queue."""
        queue = await self.watch.get_queue(self.queue, ensure=False)
        bodies = []
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            bodies.append(message.body)
        return bodies

    async def depth(self) -> int:
        """Count what is in the queue."""
        queue = await self.watch.declare_queue(self.queue, passive=True)
        return queue.declaration_result.message_count or 0


MakePress = Callable[..., Awaitable[Press]]


@pytest.fixture
async def press(rabbit_url: str, namespace: str) -> AsyncIterator[MakePress]:
    """Makes publishers, by way of ``url`` if given, and their quorum queue with further ``arguments``."""
    async with AsyncExitStack() as stack:
        near = await aio_pika.connect(rabbit_url)
        stack.push_async_callback(near.close)
        watch = await near.channel()

        async def make(url: str | None = None, *, heartbeat_s: int = 10, **arguments: Any) -> Press:
            connection = await aio_pika.connect(
                url or rabbit_url, heartbeat=heartbeat_s, connection_class=PublishingConnection
            )
            assert isinstance(connection, PublishingConnection)
            stack.push_async_callback(connection.close)
            name = f"{namespace}press"
            await watch.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"} | arguments)
            stack.push_async_callback(watch.queue_delete, name)
            publisher = await publisher_over(connection, await connection.channel(publisher_confirms=True))
            return Press(publisher=publisher, connection=connection, queue=name, watch=watch)

        yield make


async def outcomes(*publishes: Awaitable[None]) -> list[type | None]:
    """Run publishes at once; return the class of each error, None for a confirm."""
    answers = await asyncio.gather(*publishes, return_exceptions=True)
    return [None if answer is None else type(answer) for answer in answers]


async def test_many_in_flight_are_confirmed_and_in_order(press: MakePress, long: None) -> None:
    """A thousand at once, more than may be out, are all confirmed, and lie in the queue in the order of the calls."""
    it = await press()
    bodies = [b"%d" % number for number in range(1000)]
    assert await outcomes(*map(it.publish, bodies)) == [None] * 1000
    assert await it.bodies() == bodies


async def test_bodies_of_any_size_arrive_as_they_were(press: MakePress, long: None) -> None:
    """Empty ones, ones that just fit into a frame or do not, and the longest text, side by side and in order."""
    it = await press()
    most = 131_072 - 8
    longest = ("\N{GRINNING FACE}" * 65_536).encode()
    bodies = [b"", b"a", os.urandom(most - 1), os.urandom(most), os.urandom(most + 1), longest, b"z"] * 3
    assert await outcomes(*map(it.publish, bodies)) == [None] * len(bodies)
    assert await it.bodies() == bodies


async def test_a_message_has_every_property(press: MakePress) -> None:
    """It is persistent JSON with an id of its own, which begins with the job's."""
    it = await press()
    await asyncio.gather(it.publish(b"{}"), it.publish(b"{}"))
    queue = await it.watch.get_queue(it.queue, ensure=False)
    messages = [await queue.get(no_ack=True) for _ in range(2)]
    assert {one.delivery_mode for one in messages} == {aio_pika.DeliveryMode.PERSISTENT}
    assert {one.content_type for one in messages} == {"application/json"}
    ids = {str(one.message_id) for one in messages}
    assert len(ids) == 2
    assert all(one.startswith("job.") for one in ids)


async def test_what_no_queue_takes_is_returned_to_its_caller_alone(press: MakePress, long: None) -> None:
    """Among messages that are confirmed, those without a queue raise, whatever their size."""
    it = await press()
    publishes = [
        it.publish(b"x" * size, queue=None if number % 3 else "nowhere")
        for number, size in enumerate([0, 1, 200_000, 300_000] * 25)
    ]
    wanted = [None if number % 3 else Returned for number in range(100)]
    assert await outcomes(*publishes) == wanted
    assert await it.depth() == wanted.count(None)


async def test_a_full_queue_refuses(press: MakePress, long: None) -> None:
    """What a queue rejects is `QueueFull`; what it took is what is in it."""
    it = await press(**{"x-max-length": 5, "x-overflow": "reject-publish"})
    seen: list[type | None] = []
    for _ in range(5):
        seen += await outcomes(*(it.publish(b"x") for _ in range(20)))
    assert set(seen) == {None, QueueFull}
    assert await it.depth() == seen.count(None)


async def test_a_lost_connection_is_known_at_once(press: MakePress, rabbit_url: str, long: None) -> None:
    """Who waits when the connection is cut hears of it long before the time is over, and so does who comes later."""
    async with proxied(rabbit_url) as (proxy, url):
        it = await press(url)
        await it.publish(b"before")
        proxy.freeze()
        waiting = [asyncio.create_task(it.publish(b"x")) for _ in range(publisher_module.IN_FLIGHT + 50)]
        await eventually(lambda: proxy.holds_back, what="publishes on their way")
        begun = time.monotonic()
        await proxy.cut()
        assert await outcomes(*waiting) == [Unavailable] * len(waiting)
        assert await outcomes(it.publish(b"after")) == [Unavailable]
        assert time.monotonic() - begun < 5


async def test_a_closed_channel_is_known_at_once(press: MakePress, long: None) -> None:
    """A publish to an exchange that is gone closes the channel: all that are out then are unavailable."""
    it = await press()
    begun = time.monotonic()
    # The first may have been taken before the broker came to the mistake.
    seen = await outcomes(
        it.publish(b"1"), it.publish(b"2", exchange="gone"), *(it.publish(b"3") for _ in range(50))
    )
    assert seen[1:] == [Unavailable] * 51
    assert await outcomes(it.publish(b"after")) == [Unavailable]
    assert time.monotonic() - begun < 5


async def test_no_confirm_in_time(press: MakePress, rabbit_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a frozen broker each publish ends in its time, and those after the thaw are not taken for those before."""
    monkeypatch.setattr(publisher_module, "CONFIRM_S", 0.3)
    async with proxied(rabbit_url) as (proxy, url):
        it = await press(url)
        proxy.freeze()
        begun = time.monotonic()
        # Some are out and some wait for their turn.
        count = publisher_module.IN_FLIGHT + 50
        assert await outcomes(*(it.publish(b"x") for _ in range(count))) == [Unavailable] * count
        assert 0.25 < time.monotonic() - begun < 2
        proxy.resume()

        async def taken() -> bool:
            return await outcomes(it.publish(b"late")) == [None]

        await eventually(taken, what="a confirm after the thaw")
        # Its own confirm, not one of those that were late.
        assert await outcomes(it.publish(b"good"), it.publish(b"bad", queue="nowhere")) == [None, Returned]
        assert (await it.bodies())[-1] == b"good"


async def test_callers_that_are_cancelled_disturb_nobody(
    press: MakePress, rabbit_url: str, long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether out already or still waiting, a cancelled publish takes no other's confirm; one that waits stays."""
    monkeypatch.setattr(publisher_module, "IN_FLIGHT", 10)
    async with proxied(rabbit_url) as (proxy, url):
        it = await press(url)
        proxy.freeze()
        tasks = [
            asyncio.create_task(it.publish(b"%d" % n, queue="nowhere" if n % 5 == 1 else None))
            for n in range(30)
        ]
        await eventually(lambda: proxy.holds_back, what="publishes on their way")
        for task in tasks[::2]:
            task.cancel()
        proxy.resume()
        wanted = [
            asyncio.CancelledError if n % 2 == 0 else Returned if n % 5 == 1 else None for n in range(30)
        ]
        assert await outcomes(*tasks) == wanted
        sent = [n for n in range(30) if (n < 10 or n % 2) and n % 5 != 1]
        assert await it.bodies() == [b"%d" % n for n in sent]


async def test_no_more_is_written_than_the_socket_takes(
    press: MakePress, rabbit_url: str, long: None
) -> None:
    """While the broker reads nothing, what waits stays with us and not in the transport; after that all goes out."""
    body = os.urandom(WRITE_BYTES)
    async with proxied(rabbit_url) as (proxy, url):
        it = await press(url)
        proxy.freeze()
        tasks = [asyncio.create_task(it.publish(body)) for _ in range(100)]
        await eventually(lambda: it.connection.paused, what="a full socket")
        transport = it.connection._wire._transport
        assert transport is not None
        # One write, and what asyncio lets stand before it says so.
        assert transport.get_write_buffer_size() < 2 * WRITE_BYTES
        proxy.resume()
        assert await outcomes(*tasks) == [None] * 100
        assert not it.connection.paused
        assert await it.depth() == 100


async def test_a_memory_alarm_is_an_answer_at_once(press: MakePress, rabbit_node: PrivateRabbit) -> None:
    """Whom the broker blocks is refused unsent, with the broker's reason; when it takes messages again, so do we."""
    it = await press()
    await it.publish(b"before")
    async with memory_alarm(rabbit_node):
        # The broker says so at the first publish; that one is out, and ends with its time.
        assert await outcomes(it.publish(b"first")) == [Unavailable]
        begun = time.monotonic()
        for _ in range(20):
            with pytest.raises(Unavailable, match="takes no messages now: low on memory"):
                await it.publish(b"unsent")
        assert time.monotonic() - begun < 0.5

    async def taken() -> bool:
        return await outcomes(it.publish(b"late")) == [None]

    await eventually(taken, what="the end of the alarm")
    # The broker had it all the time: nobody was promised that it would not be taken.
    assert await it.bodies() == [b"before", b"first", b"late"]


async def test_heartbeats_go_on_when_idle_and_when_busy(press: MakePress) -> None:
    """Neither side takes the other for dead, be there nothing but heartbeats or nothing but confirms."""
    idle, busy = await press(heartbeat_s=1), await press(heartbeat_s=1)
    # The broker gives up after two seconds of silence, the library after six.
    until = time.monotonic() + 7.0
    while time.monotonic() < until:
        await busy.publish(b"x")
    assert not idle.connection.is_closed
    await asyncio.gather(idle.publish(b"x"), busy.publish(b"x"))


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each publish so much time that it is never over."""
    monkeypatch.setattr(publisher_module, "CONFIRM_S", LONG_S)
