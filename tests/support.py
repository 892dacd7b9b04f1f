"""Helpers for tests: waiting for a condition with a deadline, in a loop and without one; objects that are kept."""

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind")


async def eventually(
    condition: Callable[[], Any | Awaitable[Any]],
    timeout_s: float = 10.0,
    *,
    every_s: float = 0.02,
    what: str = "",
) -> Any:
    """Return the first truthy value of ``condition``; fail with the last value seen after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{what or 'condition'} did not hold within {timeout_s} s; last seen: {value!r}"
            )
        await asyncio.sleep(every_s)


async def turns(count: int) -> None:
    """Let the loop go round so many times, so that what can run does; nothing depends on a clock."""
    for _ in range(count):
        await asyncio.sleep(0)


def wait_until(condition: Callable[[], Any], timeout_s: float = 15.0, *, what: str = "") -> Any:
    """Return the first truthy value of ``condition``, which another process makes true; fail as `eventually` does."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{what or 'condition'} did not hold within {timeout_s} s; last seen: {value!r}"
            )
        time.sleep(0.02)  # between two looks; nothing relies on how long it is
    return value


def kept(*kinds: type[Kind]) -> list[Kind]:
    """Return the objects of these classes, told by their own class: to ask a proxy of one that is gone raises."""
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]
