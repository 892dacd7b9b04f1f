"""What one client of `/ws` or `/ws/jobs/{id}` is sent, and what it says.

Writing needs no task: whoever puts something into the mailbox wakes the session, which is served at the end of this
turn of the loop, and again whenever the system has taken everything. Messages are worked on one after the other, by a
task that ends with them; meanwhile at most what one read has brought waits, and the client is not read.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Final, Protocol

from inferq.apikeys import Caller
from inferq.frames import problem
from notifier.closes import BAD_MESSAGE, DONE, NO_KEY, TOO_SLOW, UNKNOWN_JOB
from notifier.connection import Connection
from notifier.hub import Member
from notifier.requests import Auth, BadMessage, ClientMessage, decode_client_message
from notifier.wire import text_message

BATCH_BYTES: Final = 64 * 1024


class Desk(Protocol):
    """Where sessions are served."""

    def wake(self, session: "Session") -> None:
        """Have a session served at the end of this turn."""

    def wrote(self, messages: int, size: int) -> None:
        """Count what was written."""

    def overflowed(self, why: str) -> None:
        """Count a client that was sent away because it is too slow."""

    def missing(self, session: "Session", job_id: str) -> None:
        """Tell a client of an unknown job."""

    def same_key(self, session: "Session", key: str) -> bool:
        """Say whether a key is that of this session's caller."""

    async def turn(self, text: bytes | None) -> None:
        """Wait for a turn to read a message: who says much waits for the others."""

    def work(self, session: "Session", message: ClientMessage) -> Awaitable[None]:
        """Do what a message asks for."""

    def spawn(self, session: "Session") -> asyncio.Task[None]:
        """Start to work on what a client has said."""

    def left(self, session: "Session") -> None:
        """Forget a session."""


class Session(Member):
    """A client that may watch jobs."""

    __slots__ = ("_inbox", "_room", "_worker", "connection", "deaf", "desk", "written_s")

    def __init__(self, desk: Desk, connection: Connection, caller: Caller, *, single: bool) -> None:
        super().__init__(caller, single=single)
        self.desk, self.connection = desk, connection
        # Who waits for one job has nothing to say.
        self.deaf = single
        self.written_s = float("-inf")
        self._inbox: deque[bytes | None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None

    # What the hub tells.

    def wake(self) -> None:
        """Have what waits written at the end of this turn."""
        if not self.waking and not self.connection.paused:
            self.waking = True
            self.desk.wake(self)

    def pressed(self) -> None:
        """Write what can be written at once; a mailbox that is still full is a slow client's."""
        self.flush()
        if self.mailbox.full:
            self._too_slow("mailbox")

    def crowded_out(self) -> None:
        """Leave, as the slowest."""
        self._too_slow("process")

    def missing(self, job_id: str) -> None:
        """Tell the client that there is no such job; who waits for that one alone is done."""
        if self.single:
            self.connection.close(UNKNOWN_JOB, "no such job")
        else:
            self.desk.missing(self, job_id)

    # What the connection tells.

    def said(self, message: bytes | None) -> None:
        """Take a message."""
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append(message)
        if self._worker is None:
            self._worker = self.desk.spawn(self)
        else:
            self.connection.hold(True)

    def writable(self) -> None:
        """Go on writing."""
        self.flush()

    def stalled(self) -> None:
        """Leave: nothing was taken for too long."""
        self._too_slow("stalled")

    def left(self) -> None:
        """Forget everything."""
        self.desk.left(self)
        self._inbox = None
        self._make_room()

    # What comes of it.

    def flush(self) -> None:
        """Write what waits, for as long as the system takes it."""
        self.waking = False
        connection, mailbox = self.connection, self.mailbox
        while len(mailbox) and connection.open and not connection.paused:
            wires = mailbox.take(BATCH_BYTES)
            batch = wires[0] if len(wires) == 1 else b"".join(wires)
            self.desk.wrote(len(wires), len(batch))
            if self.single:
                # The one that it waited for; in one piece with the close it costs half.
                connection.close(DONE, "", batch)
                return
            connection.write(batch)
        # What comes until the system has taken all needs no waking: `writable` sees to it.
        self.waking = connection.paused
        if self._room is not None and mailbox.roomy:
            self._make_room()

    async def room(self) -> bool:
        """Wait until the mailbox is at most half full; say whether the client is still there."""
        while self.open and not self.mailbox.roomy:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        return self.open

    async def pause(self, seconds: float) -> bool:
        """Wait so long, or until the client leaves; say whether it is still there."""
        if self.open:
            self._room = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._room,), timeout=seconds)
        return self.open

    async def work(self) -> None:
        """Work on what was said, until nothing is left."""
        try:
            while self._inbox:
                text = self._inbox.popleft()
                await self.desk.turn(text)
                await self._answer(text)
                if not self._inbox:
                    self.connection.hold(False)
        finally:
            self._worker = None

    async def _answer(self, text: bytes | None) -> None:
        try:
            if text is None:
                raise BadMessage("the message is binary: send JSON as text")
            message = decode_client_message(text)
        except BadMessage as error:
            self.refuse(str(error))
            return
        if isinstance(message, Auth):
            if not self.desk.same_key(self, message.key):
                self.connection.close(NO_KEY, "an API key is needed")
            return
        await self.desk.work(self, message)

    def refuse(self, detail: str) -> None:
        """Close on a message that is wrong, and say how."""
        self.connection.close(BAD_MESSAGE, "bad message", text_message(problem("bad_message", detail)))

    def _too_slow(self, why: str) -> None:
        if self.connection.open:
            self.desk.overflowed(why)
            self.connection.close(TOO_SLOW, "too slow")

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)
