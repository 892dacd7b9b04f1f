"""Confirms and returns of one channel are taken out of what RabbitMQ sends; all else passes."""

import pytest
from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from inferq.broker.confirms import ConfirmSieve

CHANNEL = 3


class Ear:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def confirmed(self, tag: int, *, multiple: bool, taken: bool) -> None:
        """Note a confirm."""
        self.heard.append((tag, multiple, taken))

    def returned(self, message_id: bytes) -> None:
        """Note a return."""
        self.heard.append((message_id,))


def returned(message_id: str, *parts: bytes, channel: int = CHANNEL) -> bytes:
    """Make all frames of a returned message."""
    properties = commands.Basic.Properties(message_id=message_id)
    frames: list[Frame | ContentHeader | ContentBody] = [
        commands.Basic.Return(312, "NO_ROUTE", "e", "q"),
        ContentHeader(body_size=sum(map(len, parts)), properties=properties),
        *map(ContentBody, parts),
    ]
    return b"".join(frame.marshal(one, channel) for one in frames)


def ack(tag: int, *, multiple: bool = False, channel: int = CHANNEL) -> bytes:
    """Make the frame of a confirm."""
    return frame.marshal(commands.Basic.Ack(tag, multiple), channel)


@pytest.mark.parametrize("cut", [1, 7, 20, 1000])
def test_confirms_and_returns_are_taken_in_their_order(cut: int) -> None:
    """However the stream is cut, each is told once and in order, and what is not of the channel passes."""
    beat = frame.marshal(Heartbeat(), 0)
    own_beat = beat[:1] + bytes([0, CHANNEL]) + beat[3:]
    close = frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 60, 40), CHANNEL)
    elsewhere = ack(5, channel=9) + returned("x", b"abc", channel=9)
    stream = (
        ack(1)
        + beat
        + ack(2**40, multiple=True)
        + frame.marshal(commands.Basic.Nack(7, True), CHANNEL)
        + elsewhere
        + returned("a.1", b"abc", b"def")
        + ack(8)
        + returned("a.2")
        + own_beat
        + close
    )
    ear, sieve = Ear(), ConfirmSieve()
    sieve.listen(CHANNEL, ear)
    passed = b"".join(sieve.feed(stream[at : at + cut]) for at in range(0, len(stream), cut))
    assert ear.heard == [
        (1, False, True),
        (2**40, True, True),
        (7, True, False),
        (b"a.1",),
        (8, False, True),
        (b"a.2",),
    ]
    assert sieve.taken == 6
    assert passed == beat + elsewhere + own_beat + close


def test_what_stands_between_a_return_and_its_body_passes() -> None:
    """A heartbeat on the channel, which no server sends, does not end a return."""
    beat = frame.marshal(Heartbeat(), 0)
    own_beat = beat[:1] + bytes([0, CHANNEL]) + beat[3:]
    whole = returned("a.1", b"abc")
    body = frame.marshal(ContentBody(b"abc"), CHANNEL)
    ear, sieve = Ear(), ConfirmSieve()
    sieve.listen(CHANNEL, ear)
    assert sieve.feed(whole[: -len(body)] + own_beat + body + body) == own_beat + body
    assert ear.heard == [(b"a.1",)]


def test_nothing_is_taken_before_somebody_listens() -> None:
    """Until a channel is named all passes."""
    assert ConfirmSieve().feed(ack(1)) == ack(1)


def test_a_return_that_cannot_be_read_raises() -> None:
    """It must not be overlooked: the broker confirms it afterwards."""
    sieve = ConfirmSieve()
    sieve.listen(CHANNEL, Ear())
    method = frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "e", "q"), CHANNEL)
    header = b"\x00\x3c\x00\x00" + (3).to_bytes(8, "big") + b"\x80\x80\x05ab"
    with pytest.raises(IndexError):
        sieve.feed(method + b"\x02\x00\x03" + len(header).to_bytes(4, "big") + header + b"\xce")


def test_what_the_server_blocks_is_overheard_and_passes() -> None:
    """Why it takes no messages is known until it takes them again, whoever listens; the library hears both too."""
    sieve = ConfirmSieve()
    assert sieve.blocked is None
    blocked = frame.marshal(commands.Connection.Blocked("low on memory"), 0)
    assert sieve.feed(blocked) == blocked
    assert sieve.blocked == "low on memory"
    sieve.listen(CHANNEL, Ear())
    other = frame.marshal(commands.Connection.Secure("x"), 0) + frame.marshal(Heartbeat(), 0)
    assert sieve.feed(other) == other
    assert sieve.blocked == "low on memory"
    unblocked = frame.marshal(commands.Connection.Unblocked(), 0)
    assert sieve.feed(unblocked) == unblocked
    assert sieve.blocked is None
    assert sieve.taken == 0
