"""Redis commands through a circuit breaker: what counts as away, and what is an answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from redis.exceptions import ResponseError

from inferq.breaker import Limits
from inferq.circuit import Circuit
from inferq.errors import CircuitOpen
from inferq.redis import Client, connect
from inferq.telemetry import Metrics
from tests.proxy import Proxy, proxied
from tests.support import eventually


@dataclass(frozen=True, kw_only=True)
class Way:
    """A client, the breaker that it goes through, and the proxy behind that."""

    redis: Client
    circuit: Circuit
    proxy: Proxy

    @property
    def counted(self) -> tuple[int, int]:
        """Failures and successes."""
        figures = self.circuit.figures()
        return figures.failures, figures.successes


@pytest.fixture
async def way(valkey_url: str) -> AsyncIterator[Way]:
    """One that has been used, and opens after three failures."""
    async with proxied(valkey_url) as (proxy, url):
        circuit = Circuit("redis", Limits(failures=3), Metrics())
        redis = connect(url, gate=circuit)
        await redis.ping()
        yield Way(redis=redis, circuit=circuit, proxy=proxy)
        await redis.aclose()


async def test_what_redis_refuses_is_an_answer(way: Way) -> None:
    """A command that there is not, alone or among others, is a success of the way to Redis."""
    for _ in range(5):
        with pytest.raises(ResponseError):
            await way.redis.commands.call("NOSUCH")
        refused, pong = await way.redis.commands.call_many([("NOSUCH",), ("PING",)])
        assert isinstance(refused, ResponseError)
        assert pong == b"PONG"
    assert way.counted == (0, 11)


async def test_a_lost_connection_is_one_failure(way: Way) -> None:
    """However many commands it takes along; then each try to connect is one, whoever waits for it."""
    way.proxy.freeze()
    calls = [asyncio.ensure_future(way.redis.ping()) for _ in range(50)]
    await eventually(lambda: way.proxy.holds_back, what="commands on their way")
    await way.proxy.cut()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, Exception) for one in ended)
    assert way.counted == (1, 1)
    for failures in (2, 3):
        ended = await asyncio.gather(*(way.redis.ping() for _ in range(50)), return_exceptions=True)
        assert all(isinstance(one, Exception) for one in ended)
        assert way.counted == (failures, 1)
    with pytest.raises(CircuitOpen):
        await way.redis.ping()
    with pytest.raises(CircuitOpen):
        await way.redis.commands.call_many([("PING",)])


async def test_who_gives_up_tells_nothing_but_the_silence_does(way: Way) -> None:
    """Callers that leave before a connection's own deadline count for nothing; that nothing came in it counts once."""
    way.proxy.freeze()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await way.redis.ping()
    assert way.counted == (0, 1)
    await eventually(lambda: way.counted == (1, 1), what="one failure")
