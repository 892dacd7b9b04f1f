"""Deliveries are taken out of what RabbitMQ sends, however it is cut into pieces; all else passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from inferq.broker.sieve import HEARTBEAT, DeliverySieve, ack_frame, requeue_frame

Taken = tuple[bytes, int, bool, bytes]


def method(tag: str, number: int, *, redelivered: bool = False, channel: int = 1) -> bytes:
    """Make the frame that announces a delivery."""
    return frame.marshal(
        commands.Basic.Deliver(tag, number, redelivered, "inference", "inference.requests"), channel
    )


def header(size: int, channel: int = 1) -> bytes:
    """Make the frame that says how long a body is."""
    properties = commands.Basic.Properties(message_id="some", delivery_mode=2)
    return frame.marshal(ContentHeader(body_size=size, properties=properties), channel)


def body(part: bytes, channel: int = 1) -> bytes:
    """Make a frame with a part of a body."""
    return frame.marshal(ContentBody(part), channel)


def delivery(tag: str, number: int, *parts: bytes, redelivered: bool = False) -> bytes:
    """Make all frames of a delivery."""
    return (
        method(tag, number, redelivered=redelivered)
        + header(sum(map(len, parts)))
        + b"".join(map(body, parts))
    )


OTHERS = [
    frame.marshal(Heartbeat(), 0),
    frame.marshal(commands.Basic.CancelOk("c-1"), 1),
    frame.marshal(commands.Queue.DeclareOk("q", 3, 4), 2),
    # The content of a message that was asked for or returned is not ours.
    frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "e", "r"), 2) + header(3, 2) + body(b"abc", 2),
]


class Mesh:
    """A sieve and what it took."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.sieve = DeliverySieve(lambda *delivery: self.taken.append(delivery))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(OTHERS),
            st.tuples(
                st.text("abc-1", min_size=1), st.booleans(), st.lists(st.binary(min_size=1), max_size=3)
            ),
        )
    ),
    st.lists(st.integers(1, 60)),
)
def test_deliveries_are_taken_and_all_else_passes_in_whole_frames(
    sent: list[bytes | tuple[str, bool, list[bytes]]], cuts: list[int]
) -> None:
    """However the stream is cut, each delivery is taken once, in order, and the rest is passed on frame by frame."""
    stream, passing, expected = b"", b"", []
    for number, one in enumerate(sent, 1):
        if isinstance(one, bytes):
            stream, passing = stream + one, passing + one
        else:
            tag, redelivered, parts = one
            stream += delivery(tag, number, *parts, redelivered=redelivered)
            expected.append((tag.encode(), number, redelivered, b"".join(parts)))
    mesh, passed, at = Mesh(), b"", 0
    for cut in [*cuts, len(stream) + 1]:
        piece = mesh.sieve.feed(stream[at : at + cut])
        at += cut
        rest = piece
        while rest:
            used, _, _ = frame.unmarshal(rest)
            rest = rest[used:]
        passed += piece
    assert (mesh.taken, passed, mesh.sieve.taken) == (expected, passing, len(expected))


def test_a_body_may_be_empty_or_long() -> None:
    """A message without a body is taken with its header, one of several frames with the last."""
    mesh = Mesh()
    assert mesh.sieve.feed(delivery("c", 1) + method("c", 2) + header(6) + body(b"abc")) == b""
    assert mesh.taken == [(b"c", 1, False, b"")]
    mesh.sieve.feed(body(b"def"))
    assert mesh.taken[1:] == [(b"c", 2, False, b"abcdef")]


def test_a_delivery_that_another_method_interrupts_is_forgotten() -> None:
    """What was begun and not finished is not taken; a method of another channel, or a heartbeat, interrupts nothing."""
    mesh = Mesh()
    close = frame.marshal(commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80), 1)
    assert mesh.sieve.feed(method("c", 1) + header(3) + close) == close
    assert mesh.sieve.feed(body(b"abc")) == body(b"abc")
    elsewhere = frame.marshal(commands.Channel.OpenOk(), 2)
    beat = frame.marshal(Heartbeat(), 0)
    own_beat = beat[:1] + b"\x00\x01" + beat[3:]
    sent = method("c", 2) + elsewhere + beat + own_beat + header(3) + body(b"xyz")
    assert mesh.sieve.feed(sent) == elsewhere + beat + own_beat
    assert mesh.taken == [(b"c", 2, False, b"xyz")]


@pytest.mark.parametrize("wrong", [b"AMQP\x00\x00\x09\x01", b"\x01\x00\x01\x00\x00\x00\x01\x00\x00"])
def test_what_is_not_amqp_passes_with_all_that_follows(wrong: bytes) -> None:
    """Neither another protocol nor a frame without its end is held back: the library is to refuse it."""
    mesh = Mesh()
    beat = OTHERS[0]
    assert mesh.sieve.feed(beat + delivery("c", 1, b"a") + beat + wrong) == beat + beat + wrong
    assert mesh.sieve.feed(delivery("c", 2, b"b")) == delivery("c", 2, b"b")
    assert mesh.taken == [(b"c", 1, False, b"a")]


def test_frames_are_those_of_the_library() -> None:
    """What is written by hand is what the library would write."""
    assert ack_frame(3, 2**40, multiple=True) == frame.marshal(commands.Basic.Ack(2**40, True), 3)
    assert ack_frame(3, 7, multiple=False) == frame.marshal(commands.Basic.Ack(7, False), 3)
    assert requeue_frame(3, 7) == frame.marshal(commands.Basic.Reject(7, True), 3)
    assert frame.marshal(Heartbeat(), 0) == HEARTBEAT
