"""Frames put together as clients send them, and cut out of what servers send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from loadgen.wsframes import (
    CLOSE,
    MAX_FRAME_BYTES,
    NO_CODE,
    PING,
    TEXT,
    Frames,
    client_frame,
    close_code,
    close_frame,
    handshake,
    switched,
)

LENGTHS = (0, 1, 125, 126, 65_535, 65_536, 70_000)


def from_server(opcode: Opcode, payload: bytes) -> bytes:
    """Return a frame as a server sends it."""
    return Frame(opcode, payload).serialize(mask=False)


def parsed(data: bytes) -> Frame:
    """Read a client's frame with the library that servers use."""
    reader = StreamReader()
    reader.feed_data(data)
    parsing = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as ended:
        next(parsing)
    frame: Frame = ended.value.value
    return frame


def test_a_handshake_names_place_path_and_key() -> None:
    """The key only where there is one; only a 101 takes it."""
    plain = handshake("127.0.0.1:80", "/ws")
    assert plain.startswith(b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUpgrade: websocket\r\n")
    assert plain.endswith(b"\r\n\r\n")
    assert b"Authorization" not in plain
    assert b"\r\nAuthorization: Bearer secret\r\n" in handshake("h", "/ws", key="secret")
    assert switched(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert not switched(b"HTTP/1.1 403 Forbidden\r\n")


@pytest.mark.parametrize("length", LENGTHS)
def test_a_server_reads_what_a_client_sends(length: int) -> None:
    """Whatever its length, which has three forms."""
    payload = bytes(number % 251 for number in range(length))
    frame = parsed(client_frame(TEXT, payload))
    assert (frame.opcode, frame.data, frame.fin) == (Opcode.TEXT, payload, True)


def test_a_close_carries_its_code() -> None:
    """There and back; one without a code has the code that stands for none."""
    assert parsed(close_frame(4400)).data == (4400).to_bytes(2, "big")
    assert close_code((4008).to_bytes(2, "big") + b"too slow") == 4008
    assert close_code(b"") == NO_CODE


@given(st.lists(st.sampled_from(LENGTHS), max_size=5), st.lists(st.integers(1, 70_100), max_size=20))
def test_frames_are_found_wherever_they_are_cut(lengths: list[int], cuts: list[int]) -> None:
    """All of them, in order, each once it is whole."""
    stream = b"".join(from_server(Opcode.TEXT, b"x" * length) for length in lengths)
    frames, found, at = Frames(), [], 0
    for size in [*cuts, len(stream)]:
        found += [(kind, len(payload)) for kind, payload in frames.feed(stream[at : at + size])]
        at += size
    assert found == [(TEXT, length) for length in lengths]


def test_kinds_are_told_apart() -> None:
    """Pings and a close between texts."""
    stream = (
        from_server(Opcode.PING, b"p")
        + from_server(Opcode.TEXT, b"t")
        + from_server(Opcode.CLOSE, b"\x03\xe8")
    )
    assert list(Frames().feed(stream)) == [(PING, b"p"), (TEXT, b"t"), (CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize(
    "data",
    [
        from_server(Opcode.BINARY, b"x"),
        bytes((TEXT, 127)) + (MAX_FRAME_BYTES + 1).to_bytes(8, "big"),
        b"HTTP/1.1 200 OK",
    ],
    ids=["binary", "too large", "no WebSocket"],
)
def test_what_no_server_of_ours_sends(data: bytes) -> None:
    """Is said to break the protocol."""
    with pytest.raises(ValueError, match="no notifier sends"):
        list(Frames().feed(data))
