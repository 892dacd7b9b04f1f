"""An event loop on a thread of its own, for those who have none.

The thread starts with the first call. It is a daemon: a program that forgets to close its client still ends. A forked
process has no copy of it, and shares its sockets with its parent, so there it is as if it were closed.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from inferq.sdk.errors import ClientClosed

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for callers on other threads, each of which blocks its own alone; ``last`` is run at the end."""

    def __init__(self, name: str, last: Callable[[], Awaitable[None]]) -> None:
        self._name, self._last = name, last
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    @property
    def runs(self) -> bool:
        """Whether there is a thread to end."""
        return self._thread is not None and not self._closed and not self._forked

    @property
    def _forked(self) -> bool:
        return self._thread is not None and self._process != os.getpid()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end; a caller that is interrupted cancels it.

        Raises:
            ClientClosed: the thread was closed, before or meanwhile, or is another process's.
        """
        try:
            if threading.current_thread() is self._thread:
                raise RuntimeError("a blocking client cannot be called from its own thread")
            if self._forked:
                raise ClientClosed(
                    "the client is that of the process that this one was forked from: make another"
                )
            with self._guard:
                future = asyncio.run_coroutine_threadsafe(work, self._running())
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed from None
        except BaseException:
            future.cancel()
            raise

    def post(self, action: Callable[[], None]) -> None:
        """Have something done on the loop, without waiting for it; whoever is closed already has nothing to do."""
        with suppress(RuntimeError):
            if self._loop is not None and not self._forked:
                self._loop.call_soon_threadsafe(action)

    def close(self, *, wait: bool = True) -> None:
        """Cancel what still runs and end the thread; does nothing the second time.

        Without ``wait`` it ends soon: the garbage collector may come by on any thread, even this one.
        """
        if self._forked:
            # The lock may be one that was held in the parent.
            return
        with self._guard:
            runs, self._closed = self.runs, True
        if runs and self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if wait:
                self._thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise ClientClosed
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop, self._last), name=self._name, daemon=True
            )
            self._process = os.getpid()
            self._thread.start()
        return self._loop


def _run(loop: asyncio.AbstractEventLoop, last: Callable[[], Awaitable[None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end(last))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _end(last: Callable[[], Awaitable[None]]) -> None:
    try:
        await last()
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()
