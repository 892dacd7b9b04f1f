"""Who a connection tells of its client."""

from typing import Protocol


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
