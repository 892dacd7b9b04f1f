"""The end of a local pipeline that is still being started."""

import asyncio
from pathlib import Path

import psutil
import pytest

from inferq.errors import OperatorError
from inferq.loading import load_settings
from inferq.local import VALKEY, LocalPipeline
from tests.support import eventually


async def test_what_is_killed_on_purpose_is_not_started_again(tmp_path: Path) -> None:
    """A kill while services still wait for their broker: no death is told as one, and nothing comes back."""
    settings, _ = load_settings({"INFERQ_MODEL": "simulated:1,1", "INFERQ_BROKER_URL": "amqp://127.0.0.1:1/"})
    said: list[str] = []
    pipeline = LocalPipeline(settings, state_dir=tmp_path / "state", ports_auto=True, say=said.append)
    starting = asyncio.create_task(pipeline.start())
    try:
        await eventually(lambda: len(pipeline.children) == 4, 30.0, what="every process")
        pids = [child.pid for child in pipeline.children.values() if child.pid is not None]
        keeping = [task for task in asyncio.all_tasks() if task.get_name() == f"keep-{VALKEY}"]
        assert len(keeping) == 1
        pipeline.kill()
        await asyncio.wait(keeping, timeout=10)
        with pytest.raises(OperatorError):
            await asyncio.wait_for(starting, 30)
    finally:
        starting.cancel()
        await asyncio.wait({starting})
        await pipeline.stop()
    assert not [line for line in said if "died" in line or "started again" in line]
    assert not any(map(psutil.pid_exists, pids))
