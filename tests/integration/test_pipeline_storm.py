"""Many callers of one pipeline, some of whom leave at any moment, over a connection that dies under them."""

import asyncio
import random
from collections import Counter

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from inferq.pipeline import Pipeline
from tests.proxy import proxied
from tests.support import eventually

CALLERS = 1_000
ROUNDS = 5


@pytest.mark.parametrize("seed", range(3))
async def test_nobody_gets_anothers_reply(valkey_url: str, seed: int) -> None:
    """Of 1,000 callers a third is cancelled and the connection is cut in between: whoever has a reply has their own."""
    drawn = random.Random(seed)
    heard: Counter[str] = Counter()

    async def call(pipeline: Pipeline, caller: int) -> None:
        for turn in range(ROUNDS):
            own = f"{caller}.{turn}".encode()
            try:
                match (caller + turn) % 3:
                    case 0:
                        assert await pipeline.call("ECHO", own) == own
                    case 1:
                        assert await pipeline.call_many([("ECHO", own + b"a"), ("ECHO", own + b"b")]) == [
                            own + b"a",
                            own + b"b",
                        ]
                    case _:
                        assert await pipeline.transaction([("ECHO", own), ("ECHO", own)]) == [own, own]
            except (ConnectionLost, OSError):
                heard["lost"] += 1
            else:
                heard["own"] += 1

    async with proxied(valkey_url) as (proxy, url):
        pipeline = Pipeline(url, connect_timeout_s=2.0, reply_timeout_s=5.0)
        try:
            tasks = [asyncio.create_task(call(pipeline, caller)) for caller in range(CALLERS)]
            leavers = drawn.sample(tasks, CALLERS // 3)
            for number, leaver in enumerate(leavers):
                if number % 10 == 0:
                    # A few turns of the loop: some callers have left the queue by then, some wait for their replies.
                    for _ in range(drawn.randrange(3)):
                        await asyncio.sleep(0)
                if number == len(leavers) // 2:
                    await eventually(lambda: heard["own"] > 0, what="the first replies")
                    # Now replies are on their way for certain when the connection goes.
                    proxy.freeze()
                    await eventually(lambda: proxy.holds_back, what="commands on their way")
                    await proxy.cut()
                    proxy.resume()
                leaver.cancel()
            async with asyncio.timeout(30.0):
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            # A reply that is not the caller's own would be an AssertionError here.
            assert {type(outcome) for outcome in outcomes} == {type(None), asyncio.CancelledError}
            assert heard["own"] > 0
            assert heard["lost"] > 0
            # The connection that was made afterwards is in step.
            assert await pipeline.call("ECHO", "after") == b"after"
        finally:
            await pipeline.close()
