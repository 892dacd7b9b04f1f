"""A client that has still to give its API key: a browser, which cannot send headers."""

from collections.abc import Callable

from notifier.closes import NO_KEY
from notifier.connection import Connection
from notifier.requests import Auth, BadMessage, decode_client_message


class Newcomer:
    """Waits, for a bounded time, for the first message: it has to be the key."""

    __slots__ = ("_auth", "_connection", "_path", "deaf")

    def __init__(
        self, connection: Connection, path: str, auth: Callable[[Connection, str, str], None]
    ) -> None:
        self._connection, self._path, self._auth = connection, path, auth
        self.deaf = False
        connection.due(connection.patience.auth_s, self._refuse)

    def said(self, message: bytes | None) -> None:
        """Take the key."""
        try:
            said = None if message is None else decode_client_message(message)
        except BadMessage:
            said = None
        if isinstance(said, Auth):
            self._auth(self._connection, self._path, said.key)
        else:
            self._refuse()

    def writable(self) -> None:
        """Nothing was to be written."""

    def stalled(self) -> None:
        """Nothing was to be written."""

    def left(self) -> None:
        """Nothing is to be forgotten."""

    def _refuse(self) -> None:
        self._connection.close(NO_KEY, "an API key is needed")
