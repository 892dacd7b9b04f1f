"""Many callers of one pipeline, some of whom leave at any moment, over a connection that dies under them."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from inferq.pipeline import Pipeline
from tests.proxy import Proxy, proxied
from tests.support import eventually

CALLERS = 1_000
ROUNDS = 5


@pytest.mark.parametrize("seed", range(3))
async def test_nobody_gets_anothers_reply(valkey_url: str, seed: int) -> None:
    """Of 1,000 callers a third is cancelled and the connection is cut in between: whoever has a reply has their own."""
    drawn = random.Random(seed)
    heard: Counter[str] = Counter()
    async with proxied(valkey_url) as (proxy, url):
        pipeline = Pipeline(url, connect_timeout_s=2.0, reply_timeout_s=5.0)
        try:
            callers = [asyncio.create_task(_call(pipeline, number, heard)) for number in range(CALLERS)]
            leavers = drawn.sample(callers, CALLERS // 3)
            half = len(leavers) // 2
            await _leave(leavers[:half], drawn)
            await _lose_connection(proxy, heard)
            await _leave(leavers[half:], drawn)
            async with asyncio.timeout(30.0):
                outcomes = await asyncio.gather(*callers, return_exceptions=True)
            # A reply that is not the caller's own would be an AssertionError here.
            assert {type(outcome) for outcome in outcomes} == {type(None), asyncio.CancelledError}
            assert heard["own"] > 0
            assert heard["lost"] > 0
            # The connection that was made afterwards is in step.
            assert await pipeline.call("ECHO", "after") == b"after"
        finally:
            await pipeline.close()


async def _call(pipeline: Pipeline, caller: int, heard: Counter[str]) -> None:
    """Ask for what nobody else asks for, in every way, and count what came of it."""
    for turn in range(ROUNDS):
        own = f"{caller}.{turn}".encode()
        try:
            match (caller + turn) % 3:
                case 0:
                    assert await pipeline.call("ECHO", own) == own
                case 1:
                    replies = await pipeline.call_many([("ECHO", own + b"a"), ("ECHO", own + b"b")])
                    assert replies == [own + b"a", own + b"b"]
                case _:
                    assert await pipeline.call_all([("ECHO", own), ("ECHO", own)]) == [own, own]
        except (ConnectionLost, OSError):
            heard["lost"] += 1
        else:
            heard["own"] += 1


async def _leave(leavers: Sequence[asyncio.Task[None]], drawn: random.Random) -> None:
    """Cancel callers in small groups, a few turns of the loop apart: some have sent by then, some have not."""
    for number, leaver in enumerate(leavers):
        if number % 10 == 0:
            for _ in range(drawn.randrange(3)):
                await asyncio.sleep(0)
        leaver.cancel()


async def _lose_connection(proxy: Proxy, heard: Counter[str]) -> None:
    """Cut the connection while commands are on their way, after the first replies; a new one can be made."""
    await eventually(lambda: heard["own"] > 0, what="the first replies")
    proxy.freeze()
    await eventually(lambda: proxy.holds_back, what="commands on their way")
    await proxy.cut()
    proxy.resume()
