"""Redis clients with this project's deadlines, and its errors in our words.

redis-py is kept from retrying: whoever calls has a deadline, and a transition that was sent once must not be sent
again behind its back.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from inferq.errors import Unavailable
from inferq.scripts import Script

# Together with a broker's confirm these stay under the two seconds within which a submit is answered.
CONNECT_TIMEOUT_S: Final = 0.8
REPLY_TIMEOUT_S: Final = 0.8
MAX_CONNECTIONS: Final = 32


class _Sending(Connection):
    """A connection that sends without `asyncio.wait_for`.

    Before Python 3.12 that swallows a cancellation which comes in the moment when the write ends, and a task that loops
    over commands would never end. It also costs a task for each command. Health checks are left out: none is asked for.
    """

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if isinstance(command, str):
            command = command.encode()
        try:
            async with asyncio.timeout(self.socket_timeout):
                assert self._writer is not None, "it is connected"
                self._writer.writelines([command] if isinstance(command, bytes) else command)
                await self._writer.drain()
        except BaseException as error:
            # Half a command may have gone out.
            await self.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                raise RedisTimeoutError("Timeout writing to socket") from None
            if isinstance(error, OSError):
                raise RedisConnectionError(f"Error while writing to socket: {error}") from error
            raise


class _SecureSending(_Sending, SSLConnection):
    """The same over TLS."""


def connect(
    url: str, *, max_connections: int = MAX_CONNECTIONS, reply_timeout_s: float | None = REPLY_TIMEOUT_S
) -> Redis:
    """Make a client; nothing is sent before the first command. A caller waits for a free connection, never for long."""
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=max_connections,
        timeout=REPLY_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=reply_timeout_s,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        decode_responses=False,
        protocol=2,
    )
    pool.connection_class = _SecureSending if issubclass(pool.connection_class, SSLConnection) else _Sending
    return Redis.from_pool(pool)


@asynccontextmanager
async def translated(what: str) -> AsyncIterator[None]:
    """Turn what redis-py and the socket raise into `Unavailable`."""
    try:
        yield
    except (RedisError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise Unavailable(f"Redis did not {what}: {type(error).__name__}") from error


async def evaluate(redis: Redis, script: Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
    """Run one script; loads it where Redis does not know it, as after a restart."""
    try:
        return await redis.evalsha(script.sha, len(keys), *keys, *args)
    except NoScriptError:
        return await redis.eval(script.text, len(keys), *keys, *args)


async def evaluate_many(
    redis: Redis, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]
) -> list[Any]:
    """Run one script many times in one pipelined write; answers come in the order of the calls.

    A call that Redis refused because it did not know the script was not run, so it alone is sent again.
    """
    answers: list[Any] = [None] * len(calls)
    waiting = list(range(len(calls)))
    for _ in range(2):
        pipe = redis.pipeline(transaction=False)
        for index in waiting:
            keys, args = calls[index]
            pipe.evalsha(script.sha, len(keys), *keys, *args)
        for index, answer in zip(waiting, await pipe.execute(raise_on_error=False), strict=True):
            answers[index] = answer
        waiting = [index for index in waiting if isinstance(answers[index], NoScriptError)]
        if not waiting:
            break
        await redis.script_load(script.text)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
