"""What the library behind a sieved connection sees."""

import asyncio

from aiormq.connection import FrameReceiver
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat
from yarl import URL

from inferq.broker import sieved_connection
from inferq.broker.sieve import HEARTBEAT, DeliverySieve
from inferq.broker.sieved_connection import PublishingConnection, SievedConnection, Wire

DELIVERY = b"".join(
    frame.marshal(part, 1)
    for part in (
        commands.Basic.Deliver("c", 1, False, "e", "q"),
        ContentHeader(body_size=1),
        ContentBody(b"a"),
    )
)


async def test_a_server_that_only_delivers_is_seen_to_live() -> None:
    """While there are deliveries alone the library gets a heartbeat now and then; before the first one it gets none."""
    loop, now = asyncio.get_running_loop(), 100.0
    reader = asyncio.StreamReader(loop=loop)
    sieve = DeliverySieve(lambda *_: None)
    protocol = sieved_connection._Protocol(reader, loop, sieve, Wire(lambda: sieve))
    protocol._clock = lambda: now
    opening = frame.marshal(commands.Connection.Tune(0, 131072, 10), 0)
    protocol.data_received(opening[:9])
    now += 10
    protocol.data_received(opening[9:])
    now += sieved_connection.TELL_S / 2
    protocol.data_received(DELIVERY)
    assert reader._buffer == opening  # type: ignore[attr-defined]  # what the library has not read yet
    now += sieved_connection.TELL_S
    protocol.data_received(DELIVERY)
    protocol.data_received(DELIVERY)
    receiver = FrameReceiver(reader)
    seen = [(await receiver.get_frame())[2] for _ in range(2)]
    assert isinstance(seen[0], commands.Connection.Tune)
    assert isinstance(seen[1], Heartbeat)
    assert not reader._buffer  # type: ignore[attr-defined]  # neither a second one nor a part of a delivery


async def test_a_delivery_that_is_not_taken_harms_no_other() -> None:
    """What goes wrong with one delivery is logged, and the next is taken; without a taker nothing happens."""
    connection = SievedConnection(URL("amqp://127.0.0.1/"))
    taken: list[int] = []

    def take(_: bytes, tag: int, __: bool, ___: bytes) -> None:
        if tag == 1:
            raise ValueError("cannot be taken")
        taken.append(tag)

    connection._taken(b"c", 1, False, b"")
    connection.listen(take)
    connection._taken(b"c", 1, False, b"")
    connection._taken(b"c", 2, False, b"")
    assert taken == [2]
    # Not connected: there is nobody to write to.
    connection.write(HEARTBEAT)


class Ear:
    """Notes what a publisher is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def confirmed(self, tag: int, *, multiple: bool, taken: bool) -> None:
        """Note a confirm."""
        self.heard.append(f"confirmed {tag} {multiple} {taken}")

    def returned(self, message_id: bytes) -> None:
        """Note a return."""
        self.heard.append(f"returned {message_id.decode()}")

    def resumed(self) -> None:
        """Note that writing goes on."""
        self.heard.append("resumed")

    def ended(self) -> None:
        """Note the end."""
        self.heard.append("ended")


async def test_a_publisher_hears_of_flow_and_end() -> None:
    """It is told when the socket takes more again and when the connection ends, at once if it has ended already."""
    connection = PublishingConnection(URL("amqp://127.0.0.1/"))
    loop = asyncio.get_running_loop()
    wire = connection._wire
    protocol = sieved_connection._Protocol(asyncio.StreamReader(loop=loop), loop, connection._sieve, wire)
    # Before anybody listens nothing is to be told.
    protocol.pause_writing()
    protocol.resume_writing()
    ear = Ear()
    connection.listen(1, ear)
    protocol.pause_writing()
    assert connection.paused
    assert ear.heard == []
    protocol.resume_writing()
    assert not connection.paused
    protocol.data_received(frame.marshal(commands.Basic.Ack(7, True), 1))
    protocol.data_received(frame.marshal(commands.Basic.Nack(9, False), 1))
    protocol.eof_received()
    assert ear.heard == ["resumed", "confirmed 7 True True", "confirmed 9 False False", "ended"]
    late = Ear()
    connection.listen(2, late)
    assert late.heard == ["ended"]
    # Not connected: there is nobody to write to.
    connection.write(HEARTBEAT)
