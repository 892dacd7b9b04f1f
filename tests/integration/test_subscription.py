"""A subscription to channels of the real Valkey: what it hands on, and how it ends."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoPermissionError

from inferq.subscription import open_subscription
from tests.deployment import Deployment
from tests.proxy import proxied
from tests.support import eventually

pytestmark = pytest.mark.usefixtures("nothing_unheard")


def ignore(_: bytes, __: bytes) -> None:
    """Take a message and do nothing."""


async def test_a_subscription_ends_with_an_error(streams: Deployment) -> None:
    """It hands on what is published while it stands, and says so when the server ends it."""
    got: list[tuple[bytes, bytes]] = []
    channel = streams.names.event_channel(0)
    link = await open_subscription(
        streams.redis_url,
        lambda *message: got.append(message),
        timeout_s=2.0,
        ping_every_s=1.0,
        silence_s=3.0,
    )
    await link.hear(channel)
    await streams.redis.publish(channel, b"")
    await streams.redis.publish(channel, b"x" * 300_000)
    await eventually(lambda: len(got) == 2)
    await streams.redis.client_kill_filter(_type="pubsub")
    async with asyncio.timeout(5.0):
        with pytest.raises(ConnectionLost):
            await link.end()
    assert got == [(channel.encode(), b""), (channel.encode(), b"x" * 300_000)]


async def test_a_hanging_link_is_noticed_in_time(streams: Deployment) -> None:
    """Silence ends the subscription between its bound less one ping and its bound."""
    loop = asyncio.get_running_loop()
    async with proxied(streams.redis_url) as (proxy, url):
        link = await open_subscription(url, ignore, timeout_s=2.0, ping_every_s=0.2, silence_s=1.0)
        await link.hear(streams.names.event_channel(0))
        proxy.freeze()
        begun = loop.time()
        async with asyncio.timeout(5.0):
            with pytest.raises(ConnectionLost):
                await link.end()
        assert 0.75 < loop.time() - begun < 1.5
        # A server that takes connections and says nothing is no subscription either.
        link = await open_subscription(url, ignore, timeout_s=2.0, ping_every_s=0.2, silence_s=0.4)
        async with asyncio.timeout(5.0):
            with pytest.raises(ConnectionLost):
                await link.hear(streams.names.event_channel(0))


async def test_a_refused_channel_ends_the_subscription(streams: Deployment) -> None:
    """It ends with what Redis said, and what is asked of it afterwards fails at once."""
    user, admin = f"{streams.names.namespace}u", streams.redis.commands
    await admin.call("ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", "resetchannels")
    url = streams.redis_url.replace("redis://", f"redis://{user}:pw@")
    try:
        link = await open_subscription(url, ignore, timeout_s=2.0, ping_every_s=0.5, silence_s=2.0)
        async with asyncio.timeout(5.0):
            link.hear("some")
            with pytest.raises(NoPermissionError):
                await link.end()
            with pytest.raises(ConnectionLost):
                await link.hear("other")
            link.leave("other")
    finally:
        await admin.call("ACL", "DELUSER", user)
