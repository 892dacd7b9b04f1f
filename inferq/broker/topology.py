"""What inferq declares on RabbitMQ: two direct exchanges, quorum queues for work, and two for dead letters."""

from collections.abc import Mapping, Sequence
from typing import Final

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelPreconditionFailed

from inferq.broker.link import CONNECT_TIMEOUT_S
from inferq.errors import OperatorError
from inferq.names import Names

# A quorum queue that is not there yet is begun on all of a cluster's nodes.
NEW_QUEUE_S: Final = 0.1


def declaring_s(queues: Sequence[str]) -> float:
    """Return how long it may take, in seconds, to connect and declare so many queues, all of them new."""
    return CONNECT_TIMEOUT_S + NEW_QUEUE_S * len(queues)


async def declare(channel: AbstractChannel, names: Names, queues: Sequence[str], limit_jobs: int) -> None:
    """Declare everything.

    Raises:
        OperatorError: something by one of these names exists and differs.
    """
    name = ""
    try:
        name = names.exchange
        work = await channel.declare_exchange(name, ExchangeType.DIRECT, durable=True)
        name = names.dead_exchange
        dead = await channel.declare_exchange(name, ExchangeType.DIRECT, durable=True)
        for name in (names.dead_queue, names.dropped_queue):
            queue = await channel.declare_queue(name, durable=True, arguments=dict(names.dead_arguments))
            await queue.bind(dead, routing_key=name)
        for name in queues:
            queue = await channel.declare_queue(
                name, durable=True, arguments=dict(names.queue_arguments(limit_jobs))
            )
            await queue.bind(work, routing_key=name)
    except ChannelPreconditionFailed as error:
        raise OperatorError(
            f"{name} exists on the broker with other arguments (another INFERQ_QUEUE_LIMIT perhaps): use the old"
            f" setting, or another INFERQ_NAMESPACE, or empty it and run `rabbitmqctl delete_queue {name}`"
        ) from error


async def count(channel: AbstractChannel, name: str, arguments: Mapping[str, str | int]) -> int:
    """Count the messages that are ready in a queue; declares it where it vanished."""
    queue = await channel.declare_queue(name, durable=True, arguments=dict(arguments))
    return queue.declaration_result.message_count or 0
