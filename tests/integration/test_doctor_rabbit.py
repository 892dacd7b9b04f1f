"""What `inferq doctor` finds on RabbitMQ when something is wrong, each provoked with the real thing."""

from collections.abc import AsyncIterator, Callable

import aio_pika
import pytest

from inferq.cli.examining.brokercheck import look_at_broker
from inferq.cli.examining.finding import Finding, Grade
from inferq.ports import LOOPBACK, free_port
from inferq.rabbitnode import PrivateRabbit
from inferq.settings import Settings, with_values
from tests.deployment import delete_queues
from tests.doctoring import PASSWORD, only, settings_of, with_login
from tests.rabbitalarm import control, memory_alarm
from tests.support import eventually


@pytest.fixture
async def amqp(
    valkey_url: str, rabbit_url: str, rabbit_node: PrivateRabbit, namespace: str
) -> AsyncIterator[Callable[..., Settings]]:
    """Makes settings of a deployment on the shared RabbitMQ, whose queues go at the end."""
    made: list[Settings] = []

    def make(broker_url: str = rabbit_url, **more: str) -> Settings:
        given = {"namespace": namespace, "broker_ui_url": rabbit_node.management_url, **more}
        made.append(settings_of(valkey_url, broker_url, **given))
        return made[-1]

    yield make
    names = make().names
    await delete_queues(rabbit_url, [*names.queues(), names.dead_queue, names.dropped_queue])


async def test_a_queue_with_other_arguments_is_named_with_them(amqp: Callable[..., Settings]) -> None:
    """Which argument, what it is there and what was wanted, and how to mend it."""
    settings = amqp()
    assert only((await look_at_broker(settings))[0], "broker").grade is Grade.OK
    found, _ = await look_at_broker(amqp(queue_limit="77"))
    differs = only(found, "broker")
    assert differs.grade is Grade.WRONG
    assert (
        f"{settings.namespace}inference.requests exists on the broker with other arguments" in differs.detail
    )
    assert "inequivalent arg 'x-max-length'" in differs.detail
    assert "'77'" in differs.detail
    assert "'10000'" in differs.detail
    assert f"rabbitmqctl delete_queue {settings.namespace}inference.requests" in differs.cure


async def test_a_classic_queue_in_our_place_is_named(amqp: Callable[..., Settings], rabbit_url: str) -> None:
    """Another type of queue keeps other promises."""
    settings = amqp()
    connection = await aio_pika.connect(rabbit_url)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue(settings.names.queue("builtin"), durable=True)
        found, _ = await look_at_broker(settings)
    assert only(found, "broker").grade is Grade.WRONG
    assert "inequivalent arg 'x-" in only(found, "broker").detail


async def test_a_memory_alarm_is_named(amqp: Callable[..., Settings], rabbit_node: PrivateRabbit) -> None:
    """By the management where it is asked; without it by what the broker does not confirm. Afterwards all is well."""
    settings = amqp()
    async with memory_alarm(rabbit_node):

        async def alarm() -> Finding | None:
            found = [one for one in (await look_at_broker(settings))[0] if one.name == "alarms"]
            # The management's picture of its node is some seconds old.
            return found[0] if found and "MiB of memory" in found[0].detail else None

        named = await eventually(alarm, 30.0, what="the alarm")
        assert named.grade is Grade.WRONG
        assert "takes no messages" in named.detail
        assert "vm_memory_high_watermark" in named.cure
        unmanaged = amqp(broker_ui_url=f"http://{LOOPBACK}:{free_port()}/")
        found, managed = await look_at_broker(unmanaged)
        assert "confirms no message" in only(found, "alarms").detail
        remark = only(found, "management")
        assert (remark.grade, managed is not None and managed.missing) == (
            Grade.NOTE,
            "nothing listens there",
        )

    async def well() -> bool:
        return only((await look_at_broker(settings))[0], "alarms").grade is Grade.OK

    await eventually(well, 30.0, what="the end of the alarm")
    found, managed = await look_at_broker(settings)
    assert only(found, "management").grade is Grade.OK
    assert managed is not None
    assert managed.ahead_ms is not None
    assert abs(managed.ahead_ms) < 2_000


async def test_a_disk_alarm_is_named(amqp: Callable[..., Settings], rabbit_node: PrivateRabbit) -> None:
    """With what is free and what the broker wants; it is over when the broker wants no more than there is."""
    settings = amqp()
    await control(rabbit_node, ["set_disk_free_limit", "1000000GB"])
    try:

        async def alarm() -> Finding | None:
            found = [one for one in (await look_at_broker(settings))[0] if one.name == "alarms"]
            return found[0] if found and "of its disk are free" in found[0].detail else None

        named = await eventually(alarm, 40.0, what="the alarm")
        assert (named.grade, "disk_free_limit" in named.cure) == (Grade.WRONG, True)
    finally:
        await control(rabbit_node, ["set_disk_free_limit", "50MB"])

    async def over() -> bool:
        return only((await look_at_broker(settings))[0], "alarms").grade is Grade.OK

    # Others use this node.
    await eventually(over, 40.0, what="the end of the alarm")


async def test_a_policy_that_takes_jobs_away_is_named(
    amqp: Callable[..., Settings], rabbit_node: PrivateRabbit
) -> None:
    """Beside the queues that nobody consumes; it is gone once it is cleared."""
    settings = amqp()
    found, _ = await look_at_broker(settings)
    idle = [one.detail for one in found if one.name == "queues"]
    assert [detail.startswith("nobody consumes ") for detail in idle] == [True, True]
    policy = f"{settings.namespace}ttl"
    await control(
        rabbit_node,
        ["set_policy", "--apply-to", "queues", policy, f"^{settings.namespace}", '{"message-ttl":86400000}'],
    )
    try:

        async def named() -> list[Finding]:
            found, _ = await look_at_broker(settings)
            return [one for one in found if f"the policy {policy} sets message-ttl" in one.detail]

        first = (await eventually(named, 30.0, what="the policy"))[0]
        assert (first.grade, first.cure.split(",")[0]) == (
            Grade.WRONG,
            f"run `rabbitmqctl clear_policy {policy}`",
        )
    finally:
        await control(rabbit_node, ["clear_policy", policy])


async def test_a_redis_that_is_away_is_not_laid_on_rabbitmq(amqp: Callable[..., Settings]) -> None:
    """Without the records its jobs cannot be told; the broker is none the worse."""
    found, managed = await look_at_broker(with_values(amqp(), redis_url="redis://127.0.0.1:1/0"))
    assert "its jobs cannot be told, as the records are away" in only(found, "broker").detail
    assert only(found, "broker").cure == "see the finding redis above"
    assert managed is not None


async def test_a_wrong_login_at_rabbitmq_is_said(amqp: Callable[..., Settings], rabbit_url: str) -> None:
    """As what it is, without the password."""
    settings = amqp(broker_url=with_login(rabbit_url, f"bob:{PASSWORD}"))
    found, managed = await look_at_broker(settings)
    assert "refuses this user or virtual host" in only(found, "broker").detail
    assert only(found, "broker").cure == "correct INFERQ_BROKER_URL"
    assert managed is not None
    assert "may not ask it" in managed.missing
    assert PASSWORD not in str(found)


async def test_a_password_is_not_sent_in_the_clear(valkey_url: str) -> None:
    """The management of another host is asked over https alone."""
    settings = settings_of(
        valkey_url, f"amqp://u:{PASSWORD}@{LOOPBACK}:{free_port()}/", broker_ui_url="http://rabbit.example/"
    )
    found, managed = await look_at_broker(settings)
    assert managed is not None
    assert "in the clear" in managed.missing
    assert PASSWORD not in str(found)
