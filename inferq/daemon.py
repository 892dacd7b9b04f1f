"""Blocking work beside an event loop, in threads that never keep the process from ending."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

Value = TypeVar("Value")

# One is worked on while the next is made.
_WAITING: Final = 2


async def beside(work: Callable[[], Value]) -> Value:
    """Return what ``work`` returns; when the caller is cancelled, its thread is left behind."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]  # without an error there is a value

    def run() -> None:
        value, raised = None, None
        try:
            value = work()
        except BaseException as error:
            raised = error
        # A loop that has ended needs no answer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value, raised)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return await done


async def each_beside(make: Callable[[], Iterator[Value]]) -> AsyncGenerator[Value, None]:
    """Yield what an iterator yields that may block; it is at most two values ahead of who takes them."""
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[tuple[Value] | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(_WAITING)
    left = threading.Event()

    def put(item: tuple[Value] | BaseException | None) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(made.put_nowait, item)

    def run() -> None:
        try:
            for value in make():
                room.acquire()
                if left.is_set():
                    return
                put((value,))
        except BaseException as error:
            put(error)
        else:
            put(None)

    threading.Thread(target=run, name="each beside", daemon=True).start()
    try:
        while (item := await made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
            room.release()
    finally:
        left.set()
        room.release()
