"""Takes a publisher's confirms, and what comes back as unroutable, out of what a RabbitMQ server sends.

It also overhears whether the server takes messages at all: one that is short of memory or disk says so.

Rules:

1. Only one channel's frames are taken, the one that publishes.
2. A returned message is a method, a header and its bodies in one piece. Of these the header says which one it is; a
   broker confirms it afterwards like any other, so it has to be reported first.
3. What cannot be read raises, and so ends the connection: a lost return would pass for a confirmed message.
4. That the server blocks the connection is noted and passed on: the library heeds it too.
"""

from typing import Final, Protocol

from inferq.broker.publish_frames import id_of
from inferq.broker.sieve import BODY, HEADER, METHOD, SIZE, TAG, Sieve

_ACK: Final = b"\x00\x3c\x00\x50"
_NACK: Final = b"\x00\x3c\x00\x78"
_CONFIRMS: Final = (_ACK, _NACK)
_RETURN: Final = b"\x00\x3c\x00\x32"
_BLOCKED: Final = b"\x00\x0a\x00\x3c"
_UNBLOCKED: Final = b"\x00\x0a\x00\x3d"


class Confirmed(Protocol):
    """Who is told of them."""

    def confirmed(self, tag: int, *, multiple: bool, taken: bool) -> None:
        """The broker has taken or refused a publish, with ``multiple`` all older ones too."""

    def returned(self, message_id: bytes) -> None:
        """The broker had no queue for a message."""


class ConfirmSieve(Sieve):
    """Takes the confirms of the channel that `listen` names; until then it takes nothing.

    ``blocked`` is why the server takes no messages now; None while it does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocked: str | None = None
        self._channel = -1
        self._listener: Confirmed | None = None
        self._returning = False
        self._left = 0

    def listen(self, channel: int, listener: Confirmed) -> None:
        """Take from a channel, and tell a listener."""
        self._channel, self._listener = channel, listener

    def _takes(self, kind: int, channel: int, data: bytes, begin: int, end: int) -> bool:
        if channel == 0:
            self._overhear(kind, data, begin)
            return False
        if channel != self._channel or self._listener is None:
            return False
        if kind == METHOD:
            name = data[begin : begin + 4]
            if name in _CONFIRMS:
                tag, bits = TAG.unpack_from(data, begin + 4)
                self.taken += 1
                self._listener.confirmed(tag, multiple=bool(bits & 1), taken=name == _ACK)
                return True
            self._returning = name == _RETURN
            return self._returning
        if not self._returning:
            return False
        if kind == HEADER:
            (self._left,) = SIZE.unpack_from(data, begin + 4)
            self.taken += 1
            self._listener.returned(id_of(data[begin:end]))
        elif kind == BODY:
            self._left -= end - begin
        else:
            return False
        self._returning = self._left > 0
        return True

    def _overhear(self, kind: int, data: bytes, begin: int) -> None:
        if kind != METHOD:
            return
        name = data[begin : begin + 4]
        if name == _BLOCKED:
            reason = data[begin + 5 : begin + 5 + data[begin + 4]]
            self.blocked = reason.decode(errors="replace")
        elif name == _UNBLOCKED:
            self.blocked = None
