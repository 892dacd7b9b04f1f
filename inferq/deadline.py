"""Deadlines of equal length for very many short pieces of work.

Why our own: `asyncio.timeout` sets a timer of the loop and takes it back, which costs a submit 3 us of its 50.
Deadlines of one length end in the order in which they began, so one timer, for the first in line, serves them all.
"""

import asyncio
from collections import deque


class Deadline:
    """One piece of work; ``expired`` says that it was cancelled because its time was over."""

    __slots__ = ("_task", "due_s", "expired")

    def __init__(self, due_s: float, task: asyncio.Task[object] | None) -> None:
        self.due_s, self._task, self.expired = due_s, task, False

    def end(self) -> None:
        """The work is done."""
        self._task = None

    def over(self) -> None:
        """Its time is over: its task is cancelled, unless it is done."""
        if self._task is not None:
            self.expired = True
            self._task.cancel()

    def is_mine(self, task: asyncio.Task[object] | None) -> bool:
        """Say whether a cancellation of the task was this deadline's alone, and take that back."""
        return self.expired and task is not None and task.uncancel() <= 0


class Deadlines:
    """Begins deadlines, each ``seconds`` long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._line: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """Begin one for the current task, which has to `end` it."""
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop.time() + self._seconds, asyncio.current_task())
        self._line.append(deadline)
        if self._timer is None:
            self._timer = loop.call_at(deadline.due_s, self._look)
        return deadline

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        while self._line and self._line[0].due_s <= now_s:
            self._line.popleft().over()
        self._timer = loop.call_at(self._line[0].due_s, self._look) if self._line else None
