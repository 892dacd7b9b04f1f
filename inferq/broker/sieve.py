"""Takes out of what a RabbitMQ server sends what a client library would be slow with, before it sees it.

Why: measured with `scripts/broker_cost.py`, a delivery through aio-pika and aiormq costs a batcher about 330 us of CPU.
Three frames are read and decoded field by field, and objects and a task are made for each. What a batcher needs of them
is a tag, a bit and the body, cut out here in a few microseconds. All else is passed on as it came, so that connecting,
channels, heartbeats and errors stay the library's. Confirms are taken in the same way; see `inferq.broker.confirms`.

Rules:

1. Only whole frames are passed on, so that a frame of our own may be put in between any two calls.
2. A delivery is a method, a header and as many bodies as its size asks for, on one channel. A broker sends them in one
   piece; when another method comes in between, the delivery was never finished and is forgotten.
3. What is no frame of AMQP is passed on as it is, with all that follows, for the library to refuse.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct
from typing import Final

# Consumer tag, delivery tag, redelivered, body.
Take = Callable[[bytes, int, bool, bytes], None]

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
# What ends every frame.
END: Final = 0xCE
BASIC: Final = 60
# Tag and bits, of a delivery as of a confirm.
TAG: Final = Struct(">QB")
# Of a body, in its header's frame.
SIZE: Final = Struct(">Q")
_HEAD: Final = Struct(">BHI")
_SETTLE: Final = Struct(">BHIHHQBB")
_KINDS: Final = frozenset({METHOD, HEADER, BODY, 8})
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_ACK: Final = 80
_REJECT: Final = 90
# Without the size in its frame's head: class, method, tag, one octet of bits.
_SETTLE_BYTES: Final = 13
# A frame that says nothing: eight octets of which the library only sees that the server lives.
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Sieve(ABC):
    """One connection's incoming bytes; a subclass says which frames go no further, ``taken`` counts what they told."""

    def __init__(self) -> None:
        self.taken = 0
        self._rest = b""
        self._through = False

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what was not taken, whole frames alone."""
        if self._through:
            return data
        if self._rest:
            data = self._rest + data
        passed: list[bytes] = []
        # What is passed on is cut out in runs, from ``run`` to where one begins that is not.
        run = at = 0
        size = len(data)
        while size - at >= 7:
            kind, channel, length = _HEAD.unpack_from(data, at)
            if kind not in _KINDS:
                return self._give_up(passed, data, run)
            end = at + 8 + length
            if end > size:
                break
            if data[end - 1] != END:
                return self._give_up(passed, data, run)
            if self._takes(kind, channel, data, at + 7, end - 1):
                if run < at:
                    passed.append(data[run:at])
                run = end
            at = end
        if run < at:
            passed.append(data[run:at])
        self._rest = data[at:]
        return b"".join(passed)

    def _give_up(self, passed: list[bytes], data: bytes, run: int) -> bytes:
        self._through = True
        return b"".join(passed) + data[run:]

    @abstractmethod
    def _takes(self, kind: int, channel: int, data: bytes, begin: int, end: int) -> bool:
        """Take a frame in, with its payload from ``begin`` to ``end``; False when it is to be passed on."""


class DeliverySieve(Sieve):
    """Takes deliveries; ``take`` gets each as soon as it is complete."""

    def __init__(self, take: Take) -> None:
        super().__init__()
        self._take = take
        self._channel = -1
        self._delivery: tuple[bytes, int, bool] | None = None
        self._left = 0
        self._body: list[bytes] = []

    def _takes(self, kind: int, channel: int, data: bytes, begin: int, end: int) -> bool:
        if kind == METHOD:
            if data[begin : begin + 4] != _DELIVER:
                if channel == self._channel:
                    self._delivery = None
                return False
            tag = begin + 5 + data[begin + 4]
            number, redelivered = TAG.unpack_from(data, tag)
            self._channel = channel
            self._delivery = (data[begin + 5 : tag], number, bool(redelivered & 1))
            self._body = []
            return True
        if self._delivery is None or channel != self._channel:
            return False
        if kind == HEADER:
            (self._left,) = SIZE.unpack_from(data, begin + 4)
        elif kind == BODY:
            self._body.append(data[begin:end])
            self._left -= end - begin
        else:
            return False
        if self._left <= 0:
            delivery, self._delivery = self._delivery, None
            self.taken += 1
            self._take(*delivery, self._body[0] if len(self._body) == 1 else b"".join(self._body))
        return True


def ack_frame(channel: int, tag: int, *, multiple: bool) -> bytes:
    """Make the frame that acknowledges a delivery, with ``multiple`` all older ones too."""
    return _SETTLE.pack(METHOD, channel, _SETTLE_BYTES, BASIC, _ACK, tag, multiple, END)


def requeue_frame(channel: int, tag: int) -> bytes:
    """Make the frame that puts a delivery back into its queue."""
    return _SETTLE.pack(METHOD, channel, _SETTLE_BYTES, BASIC, _REJECT, tag, 1, END)
