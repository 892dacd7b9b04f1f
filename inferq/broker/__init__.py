"""The queue between ingress and batchers: one protocol, two brokers that keep the same promises."""

from urllib.parse import urlsplit

from inferq.broker.base import Broker, TakenBack
from inferq.broker.opening import open_when_there
from inferq.broker.publisher import Blocked
from inferq.broker.rabbitmq import RabbitBroker
from inferq.broker.streams import StreamsBroker
from inferq.errors import OperatorError
from inferq.settings import Settings
from inferq.store import Store

__all__ = ["Blocked", "Broker", "TakenBack", "make_broker", "open_when_there"]


def make_broker(settings: Settings, store: Store) -> Broker:
    """Make the broker that the settings name; nothing is connected yet.

    Raises:
        OperatorError: the queue is to live in another Redis than the records.
    """
    queues = settings.names.queues()
    if urlsplit(settings.broker_url).scheme in {"amqp", "amqps"}:
        return RabbitBroker(settings.broker_url, store, queues, limit_jobs=settings.queue_limit)
    if settings.broker_url != settings.redis_url:
        raise OperatorError(
            "INFERQ_BROKER_URL names another Redis than INFERQ_REDIS_URL: record and queue entry are one atomic"
            " step and must share one; leave INFERQ_BROKER_URL empty, or name an amqp:// broker"
        )
    return StreamsBroker(settings.broker_url, store, queues, limit_jobs=settings.queue_limit)
