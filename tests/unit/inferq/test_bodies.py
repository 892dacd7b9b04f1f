"""Request bodies as ASGI hands them over, each within its limit."""

from collections.abc import Iterable
from typing import Any

import pytest

from inferq.bodies import DRAIN_BYTES, Disconnected, read, read_either, read_within
from inferq.errors import BodyTooLarge, Unavailable
from inferq.gate import Gate


class Sender:
    """Sends a body in pieces; None is the end of the connection. Fails a test that reads on after the last."""

    def __init__(self, pieces: Iterable[bytes | None]) -> None:
        self.left = list(pieces)

    async def __call__(self) -> dict[str, Any]:
        piece = self.left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(self.left)}


@pytest.mark.parametrize(
    "pieces", [[b"1234567890"], [b"12345", b"67890"], [b"", b"1234567890", b""], [b"1234567890", b""]]
)
@pytest.mark.parametrize("declared", [b"10", b"0", b"junk", b""])
async def test_a_body_within_the_limit_is_read_whole(pieces: list[bytes], declared: bytes) -> None:
    """At the limit still, in however many pieces, and whatever it says of its length."""
    sender = Sender(pieces)
    assert await read(sender, declared=declared, most_bytes=10) == b"1234567890"
    assert sender.left == []
    gate = Gate(most_bytes=10)
    assert await read_within(Sender(pieces), gate, declared=declared, most_bytes=10) == b"1234567890"
    assert (gate.jobs, gate.bytes) == (0, 10), "its reader gives back the bytes once it is done with them"


@pytest.mark.parametrize("pieces", [[b"12345678901"], [b"1234567890", b"1"], [b"x" * 500, b"x" * 500]])
async def test_one_byte_more_is_refused(pieces: list[bytes]) -> None:
    """It is read to its end, so that its sender gets to read the answer; and nothing of it is kept."""
    sender, gate = Sender(pieces), Gate()
    with pytest.raises(BodyTooLarge, match="a body may have 10 bytes") as caught:
        await read(sender, declared=b"0", most_bytes=10)
    assert caught.value.headers["Connection"] == "close"
    assert sender.left == []
    sender = Sender(pieces)
    with pytest.raises(BodyTooLarge, match="a body may have 10 bytes"):
        await read_within(sender, gate, declared=b"0", most_bytes=10)
    assert sender.left == []
    assert gate.bytes == 0


async def test_a_body_that_says_it_is_huge_is_not_read_on() -> None:
    """More than would even be thrown away."""
    sender = Sender([b"1", b"2"])
    with pytest.raises(BodyTooLarge):
        await read(sender, declared=b"%d" % (10 + DRAIN_BYTES + 1), most_bytes=10)
    assert sender.left == [b"2"]
    with pytest.raises(BodyTooLarge):
        await read(Sender([b"1", b"2"]), declared=b"9" * 5000, most_bytes=10)


async def test_an_endless_body_is_read_so_far_and_no_further() -> None:
    """What is too long is thrown away up to a bound, and never kept."""
    piece = b"x" * (1024 * 1024)
    sender, gate = Sender([piece] * 10), Gate(most_bytes=5)
    with pytest.raises(BodyTooLarge):
        await read_within(sender, gate, declared=b"0", most_bytes=10)
    assert len(sender.left) == 10 - (DRAIN_BYTES // len(piece) + 1)
    assert gate.bytes == 0


@pytest.mark.parametrize("pieces", [[None], [b"12", None], [b"12", b"3", None]])
async def test_a_sender_that_goes_away_is_told_apart(pieces: list[bytes | None]) -> None:
    """There is nobody to answer, and what it sent takes up nothing."""
    with pytest.raises(Disconnected):
        await read(Sender(pieces), declared=b"9", most_bytes=10)
    gate = Gate()
    with pytest.raises(Disconnected):
        await read_within(Sender(pieces), gate, declared=b"9", most_bytes=10)
    assert gate.bytes == 0


async def test_bodies_that_are_read_at_a_time_are_bounded_together() -> None:
    """What does not fit any more is refused at once, gives back what it had, and leaves the others alone."""
    gate = Gate(most_bytes=15)
    await read_within(Sender([b"1234567890"]), gate, declared=b"10", most_bytes=10)
    sender = Sender([b"12345", b"6", b"7"])
    with pytest.raises(Unavailable, match="too many large requests"):
        await read_within(sender, gate, declared=b"7", most_bytes=10)
    assert sender.left == [b"7"]
    assert gate.bytes == 10
    assert await read_within(Sender([b"12345"]), gate, declared=b"5", most_bytes=10) == b"12345"


@pytest.mark.parametrize(
    ("pieces", "held"),
    [
        ([b"12345"], 0),
        ([b"12", b"345"], 0),
        ([b"123456"], 6),
        ([b"1234567890"], 10),
        ([b"12345", b"67890"], 10),
    ],
)
async def test_only_what_is_larger_than_usual_takes_up_room(pieces: list[bytes], held: int) -> None:
    """A body of the usual size is read as ever, in however many pieces; a larger one's reader gives its room back."""
    gate = Gate(most_bytes=10)
    body = await read_either(Sender(pieces), gate, declared=b"", usual_bytes=5, most_bytes=10)
    assert (body, gate.bytes) == (b"".join(pieces), held)


async def test_larger_bodies_have_their_limits() -> None:
    """Of each, and of all together; none keeps what it took up."""
    gate = Gate(most_bytes=15)
    with pytest.raises(BodyTooLarge, match="may have 10 bytes"):
        await read_either(Sender([b"x" * 11]), gate, declared=b"", usual_bytes=5, most_bytes=10)
    assert gate.bytes == 0
    await read_either(Sender([b"x" * 10]), gate, declared=b"", usual_bytes=5, most_bytes=10)
    with pytest.raises(Unavailable):
        await read_either(Sender([b"x" * 4, b"x" * 4]), gate, declared=b"", usual_bytes=5, most_bytes=10)
    assert gate.bytes == 10
    with pytest.raises(Disconnected):
        await read_either(Sender([None]), gate, declared=b"", usual_bytes=5, most_bytes=10)
