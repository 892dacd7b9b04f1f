"""The frames of a publish are those that the library would write."""

import struct

import pytest
from aio_pika import DeliveryMode, Message
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from inferq.broker.publish_frames import id_of, publish_frames

SHORT = st.text(max_size=63)
# The library writes no other names of exchanges.
NAME = st.text("ab.:-_7", max_size=127)


def header(size: int, properties: commands.Basic.Properties) -> bytes:
    """Make the frame of a header."""
    return frame.marshal(ContentHeader(body_size=size, properties=properties), 1)


@given(
    st.integers(1, 65535), NAME, SHORT, SHORT, st.binary(max_size=200), st.sampled_from([0, 9, 40, 131072])
)
def test_a_publish_is_what_the_library_writes(
    channel: int, exchange: str, queue: str, message_id: str, body: bytes, frame_max: int
) -> None:
    """Method, header and properties are byte for byte those of aio-pika, and no frame is larger than agreed."""
    message = Message(
        body,
        message_id=message_id,
        content_type="application/json",
        delivery_mode=DeliveryMode.PERSISTENT,
    )
    most = frame_max - 8 if frame_max else len(body) or 1
    parts: list[Frame | ContentHeader | ContentBody] = [
        commands.Basic.Publish(exchange=exchange, routing_key=queue, mandatory=True),
        ContentHeader(body_size=len(body), properties=message.properties),
        *(ContentBody(body[at : at + most]) for at in range(0, len(body), most)),
    ]
    expected = b"".join(frame.marshal(part, channel) for part in parts)
    made = publish_frames(channel, frame_max, exchange, queue, message_id.encode(), body)
    # An empty id is one that the library leaves out.
    if message_id:
        assert made == expected


def test_a_name_that_is_too_long_is_refused() -> None:
    """What does not fit into a short string raises before anything is written."""
    for exchange, queue, message_id in (
        ("e" * 256, "q", b"i"),
        ("e", "q" * 256, b"i"),
        ("e", "q", b"i" * 256),
    ):
        with pytest.raises(ValueError, match=r"bytes|range"):
            publish_frames(1, 0, exchange, queue, message_id, b"body")


@given(
    st.text(min_size=1, max_size=63),
    st.fixed_dictionaries(
        {},
        optional={
            "content_type": st.text(min_size=1, max_size=20),
            "content_encoding": st.just("gzip"),
            "headers": st.dictionaries(st.text("abc", min_size=1, max_size=5), st.integers(0, 9), min_size=1),
            "delivery_mode": st.sampled_from([1, 2]),
            "priority": st.integers(0, 9),
            "correlation_id": st.just("c"),
            "reply_to": st.just("r"),
            "expiration": st.just("1000"),
            "app_id": st.just("a"),
        },
    ),
)
def test_the_id_is_found_behind_any_properties(message_id: str, others: dict[str, object]) -> None:
    """Whatever stands before the message id in a header, it is found."""
    properties = commands.Basic.Properties(message_id=message_id, **others)  # type: ignore[arg-type]  # drawn
    assert id_of(header(3, properties)[7:-1]) == message_id.encode()


def test_a_header_without_an_id_or_sense() -> None:
    """No id is an empty one; what ends too early raises."""
    assert id_of(header(3, commands.Basic.Properties(delivery_mode=2))[7:-1]) == b""
    whole = header(3, commands.Basic.Properties(content_type="text/plain", message_id="some"))[7:-1]
    with pytest.raises(struct.error):
        id_of(whole[:5])
    with pytest.raises(IndexError):
        id_of(whole[:20])
