"""Who stands on either side of a connection: its client's session, and the server it belongs to."""

from typing import TYPE_CHECKING, Protocol

from websockets.http11 import Request

if TYPE_CHECKING:
    from notifier.connection import Connection


class Peer(Protocol):
    """Who a connection tells of its client."""

    deaf: bool
    """Whether it does not want to know what is said."""

    def said(self, message: bytes | None) -> None:
        """Take a text message; None is a binary one."""

    def writable(self) -> None:
        """Hear that everything was written."""

    def stalled(self) -> None:
        """Hear that the client takes nothing."""

    def left(self) -> None:
        """Hear, once, that nothing more can be sent."""


class Host(Protocol):
    """Who a connection belongs to."""

    def made(self, connection: "Connection") -> None:
        """Hear of a new one."""

    def asked(self, connection: "Connection", request: Request) -> None:
        """Answer its request."""

    def lost(self, connection: "Connection") -> None:
        """Hear of its end."""

    def crowd(self, connection: "Connection") -> None:
        """Let it `read_on` when its turn has come: it sends much."""
