"""A cancellation that nobody asked for is the broker's doing."""

import asyncio

import pytest
from aio_pika.exceptions import ChannelClosed

from inferq.broker.amqp_errors import translated
from inferq.errors import Unavailable


async def test_a_rejected_wait_is_an_outage() -> None:
    """What aiormq cancels on a lost connection raises `Unavailable`, and the task goes on."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.cancel()
    with pytest.raises(Unavailable, match="did not answer: its connection was given up"):
        async with translated("answer", timeout_s=5):
            await waiting


async def test_our_own_cancellation_passes() -> None:
    """A task that is cancelled ends as cancelled."""
    begun = asyncio.Event()

    async def wait() -> None:
        async with translated("answer", timeout_s=5):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "error", [ChannelClosed(404, "gone"), ConnectionResetError(), EOFError(), TimeoutError()]
)
async def test_what_aio_pika_raises_is_an_outage(error: Exception) -> None:
    """Errors of the library and the socket come out in our words, with their kind."""
    with pytest.raises(Unavailable, match=type(error).__name__):
        async with translated("answer", timeout_s=5):
            raise error


async def test_a_wait_ends_at_its_deadline() -> None:
    """A broker that never answers is away after the given time."""
    with pytest.raises(Unavailable, match="TimeoutError"):
        async with translated("answer", timeout_s=0.01):
            await asyncio.Event().wait()
