"""Redis clients with this project's deadlines, and its errors in our words.

redis-py is kept from retrying: whoever calls has a deadline, and a transition that was sent once must not be sent
again behind its back.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoScriptError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from inferq.errors import OperatorError, Unavailable, first_line
from inferq.pipeline import CallGate, Pipeline
from inferq.redaction import redact
from inferq.scripts import Script

# Together with a broker's confirm these stay under the two seconds within which a submit is answered.
CONNECT_TIMEOUT_S: Final = 0.8
REPLY_TIMEOUT_S: Final = 0.8


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


class Client(Redis):
    """redis-py's commands, sent through a `Pipeline`: one connection, one write per loop tick for all callers.

    Not for commands that wait in the server: they would hold up everybody.
    """

    def __init__(self, url: str, *, reply_timeout_s: float, gate: CallGate | None = None) -> None:
        # First, as it says in our words what is wrong with a URL.
        self.commands = Pipeline(
            url, connect_timeout_s=CONNECT_TIMEOUT_S, reply_timeout_s=reply_timeout_s, gate=gate
        )
        super().__init__(connection_pool=_pool(url, reply_timeout_s=reply_timeout_s))

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and read its reply as redis-py does; raises what `Pipeline.call` raises."""
        # redis-py names a subcommand in one word with its command: "XGROUP CREATE".
        reply = await self.commands.call(*str(args[0]).split(), *args[1:])
        options.pop("keys", None)
        callback = self.response_callbacks.get(args[0])
        return callback(reply, **options) if callback is not None else reply

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """End all connections."""
        await self.commands.close()
        await super().aclose(close_connection_pool=True)


def connect(url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S, gate: CallGate | None = None) -> Client:
    """Make a client; nothing is sent before the first command, and all through the ``gate``, if there is one."""
    return Client(url, reply_timeout_s=reply_timeout_s, gate=gate)


async def check_login(url: str) -> None:
    """Say at the start what no trying again would mend; a Redis that is away is not waited for.

    Raises:
        OperatorError: Redis refuses the user or password of the URL.
    """
    client = connect(url)
    try:
        await client.commands.call("PING")
    except AuthenticationError as error:
        raise OperatorError(
            f"INFERQ_REDIS_URL: {redact(url)} refuses its user or password ({first_line(error)}): correct them"
        ) from error
    except (RedisError, OSError, TimeoutError):
        pass
    finally:
        await client.aclose()


def _pool(url: str, *, reply_timeout_s: float) -> BlockingConnectionPool:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=1,
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
    return pool


class RedisAway(Unavailable):
    """Redis is away, or refused a command."""


class translated:
    """Turns what redis-py and the socket raise into `RedisAway`: ``async with translated("take the job")``.

    A class, since every step of every job passes here, and a generator takes three times as long.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, RedisError | OSError | TimeoutError | asyncio.IncompleteReadError):
            raise RedisAway(f"Redis did not {self._what}: {type(error).__name__}") from error


async def evaluate(redis: Client, script: Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
    """Run one script."""
    (answer,) = await evaluate_many(redis, script, [(keys, args)])
    return answer


async def evaluate_many(
    redis: Client,
    script: Script,
    calls: Sequence[tuple[Sequence[str], Sequence[Any]]],
) -> list[Any]:
    """Run one script many times in one write; answers come in the order of the calls, the first error is raised.

    A call that Redis refused because it does not know the script, as after a restart, was not run and is sent again.
    """
    commands = [("EVALSHA", script.sha, len(keys), *keys, *args) for keys, args in calls]
    answers = await redis.commands.call_many(commands)
    unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
    if unknown:
        await redis.commands.call("SCRIPT", "LOAD", script.text)
        again = await redis.commands.call_many([commands[index] for index in unknown])
        for index, answer in zip(unknown, again, strict=True):
            answers[index] = answer
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
