"""Asks the broker, whichever it is: jobs that wait, queues and who consumes them, what the broker takes."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPError
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from inferq.awaycures import BROKER_AWAY, away_cures
from inferq.broker import Broker
from inferq.cli.examining.finding import Finding, note, of_error, ok, wrong
from inferq.cli.examining.management import Management, ask_management
from inferq.cli.examining.queueview import QueueCount, told, unconsumed
from inferq.cli.examining.rabbitview import judge_management, judge_nodes, judge_queues
from inferq.cli.servers import open_store_and_broker
from inferq.errors import InferqError, OperatorError, first_line
from inferq.modelsroot import model_names
from inferq.names import GROUP
from inferq.plurals import counted
from inferq.redaction import redact
from inferq.redis import Client, RedisAway, translated
from inferq.settings import Settings, with_values
from inferq.store import Store
from inferq.strays import strays, unserved

ANSWER_S: Final = 5.0
CONFIRM_S: Final = 3.0
CLOSE_S: Final = 2.0


async def look_at_broker(settings: Settings) -> tuple[list[Finding], Management | None]:
    """Return what is to be said of the broker, and what RabbitMQ's management told."""
    place = redact(settings.broker_url)
    on_rabbit = urlsplit(settings.broker_url).scheme in {"amqp", "amqps"}
    managed = await ask_management(settings) if on_rabbit else None
    try:
        queues = settings.names.queues(*model_names(settings))
    except OperatorError:
        # Said of the models themselves. Those of the default one are there in any case.
        queues, settings = settings.names.queues(), with_values(settings, models="")
    try:
        async with open_store_and_broker(settings) as (store, broker):
            found = await _jobs(place, store, broker)
            if managed is None:
                found += await _streams(store.redis, settings, queues)
    except OperatorError as error:
        found = [_refused(error)]
    except (InferqError, ResponseError) as error:
        said = first_line(error)
        refused = isinstance(error.__cause__, AuthenticationError | NoPermissionError)
        if on_rabbit and isinstance(error, RedisAway) and not refused:
            # What lies in its queues is compared with the records.
            detail = f"{place}: its jobs cannot be told, as the records are away ({said})"
            found = [wrong("broker", detail, "see the finding redis above")]
        else:
            cure = away_cures(settings).get("broker", BROKER_AWAY)
            if refused:
                cure = (
                    "correct user and password in INFERQ_REDIS_URL, or in INFERQ_BROKER_URL where that is set"
                )
            found = [wrong("broker", said if place in said else f"{place}: {said}", cure)]
    if managed is not None:
        found += await _rabbit(settings, managed, queues)
    return found, managed


async def _jobs(place: str, store: Store, broker: Broker) -> list[Finding]:
    depth, dead = await broker.depth(), await broker.dead_count()
    stray = await strays(store, broker)
    if stray:
        detail = f"{place}: {counted(len(stray), 'open job')} in none of its queues, such as {stray[0]}"
        cure = "the ingress publishes them again within a minute; was INFERQ_BROKER_URL changed while jobs waited?"
        return [wrong("broker", detail, cure)]
    if left := await unserved(store, broker):
        detail = (
            f"{place}: {counted(len(left), 'open job')} of no model of this deployment, such as {left[0]}"
        )
        cure = "put the model's folder back into INFERQ_MODELS, or let them expire (INFERQ_JOB_TTL_S)"
        return [wrong("broker", detail, cure)]
    hint = "; see `inferq dead list`" if dead else ""
    waiting = counted(depth, "job waits", "jobs wait")
    return [ok("broker", f"{place}: {waiting}, {counted(dead, 'dead letter')}{hint}")]


def _refused(error: OperatorError) -> Finding:
    """Say which argument of a queue differs, in the broker's words, where it is that."""
    finding = of_error("broker", error)
    if not isinstance(error.__cause__, AMQPError) or " - " not in str(error.__cause__):
        return finding
    said = first_line(error.__cause__).partition(" - ")[2]
    return wrong("broker", f"{finding.detail}: {said}", finding.cure)


async def _streams(redis: Client, settings: Settings, queues: Sequence[str]) -> list[Finding]:
    """Look at each stream's group: who reads it, and what those hold that no longer live."""
    names, seen, lost = settings.names, list[QueueCount](), list[Finding]()
    for queue in queues:
        async with translated("answer"):
            length = int(await redis.commands.call("XLEN", queue))
            consumers = [
                _fields(row) for row in await redis.commands.call("XINFO", "CONSUMERS", queue, GROUP)
            ]
            leases = [
                bool(await redis.commands.call("EXISTS", names.lease(bytes(one["name"]).decode())))
                for one in consumers
            ]
        held = sum(int(one["pending"]) for one in consumers)
        gone = sum(int(one["pending"]) for one, lives in zip(consumers, leases, strict=True) if not lives)
        # What nobody living has in hand is as good as ready.
        ready, held = (length - held, held) if any(leases) else (length, 0)
        seen.append(QueueCount(name=queue, ready=ready, held=held, consumers=sum(leases)))
        if gone and any(leases):
            detail = f"{counted(gone, 'job')} of {queue} are in the hands of a batcher that is gone"
            lost.append(note("queues", detail, "others take them over within seconds: look again"))
    found = [*unconsumed(seen, shards=names.shards), *lost]
    return found or [ok("queues", told(seen, shards=names.shards))]


async def _rabbit(settings: Settings, managed: Management, queues: Sequence[str]) -> list[Finding]:
    found = [judge_management(managed.url, managed.missing, managed.version)]
    names, connection = settings.names, None
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await aio_pika.connect(
                settings.broker_url, client_properties={"connection_name": "inferq doctor"}
            )
            channel = await connection.channel()
            work = [await _count(channel, queue) for queue in queues]
            dropped = await _count(channel, names.dropped_queue)
        taken = await _takes(channel)
    except (AMQPError, OSError, EOFError, TimeoutError, RuntimeError):
        # What keeps us from looking was said of the broker itself, or a queue is missing, which it says too.
        return found if connection is not None else []
    finally:
        if connection is not None:
            # One that is blocked may not answer.
            with suppress(AMQPError, OSError, TimeoutError, RuntimeError):
                async with asyncio.timeout(CLOSE_S):
                    await connection.close()
    return [
        *judge_queues(work, dropped, managed.queues, shards=names.shards),
        *judge_nodes(managed.nodes, taken=taken),
        *found,
    ]


async def _count(channel: AbstractChannel, name: str) -> QueueCount:
    declared = (await channel.declare_queue(name, passive=True)).declaration_result
    return QueueCount(name=name, ready=declared.message_count or 0, consumers=declared.consumer_count or 0)


async def _takes(channel: AbstractChannel) -> bool:
    """Say whether the broker confirms messages, which go to no queue and are dropped.

    One that is in alarm takes the first of a connection, and then reads no more from it.
    """
    try:
        async with asyncio.timeout(CONFIRM_S):
            for _ in range(2):
                await channel.default_exchange.publish(
                    aio_pika.Message(b""), routing_key="inferq.doctor.nowhere", mandatory=False
                )
    except TimeoutError:
        return False
    return True


def _fields(row: list[Any]) -> dict[str, Any]:
    return {bytes(row[index]).decode(): row[index + 1] for index in range(0, len(row), 2)}
