"""Makes a private RabbitMQ node take no messages, by its own tool."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from inferq.rabbitnode import PrivateRabbit, find_rabbitmq_server


@asynccontextmanager
async def memory_alarm(node: PrivateRabbit) -> AsyncIterator[None]:
    """Let the broker believe that it has used all its memory."""
    await control(node, ["set_vm_memory_high_watermark", "absolute", "1"])
    try:
        yield
    finally:
        await control(node, ["set_vm_memory_high_watermark", "0.4"])


async def control(node: PrivateRabbit, command: Sequence[str]) -> None:
    """Run a command of RabbitMQ's own tool."""
    tool = find_rabbitmq_server().with_name("rabbitmqctl")
    process = await asyncio.create_subprocess_exec(
        tool,
        *command,
        env=node._folder.env(node._ports),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said
