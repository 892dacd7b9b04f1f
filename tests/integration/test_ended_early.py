"""Long commands that a signal ends: nothing of their pipelines stays behind, and no traceback is shown."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from loadgen.reports.environment import ROOT
from tests.support import eventually

ENDS_WITHIN_S: Final = 40.0
MODEL: Final = ("--model", "simulated:1,1")


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("loadgen", "benchmark", "40", "60", "1:0", *MODEL), signal.SIGHUP),
        (("loadgen", "sweep", "--quick", *MODEL), signal.SIGTERM),
        (("loadgen", "cache", "--quick", *MODEL), signal.SIGHUP),
        (("loadgen.bench", "--broker", "streams", "--only", "push", "--part", "latency"), signal.SIGTERM),
        (("loadgen.bench", "--broker", "streams", "--only", "push", "--part", "latency"), signal.SIGINT),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "-".join(value[:2]),
)
async def test_a_command_that_is_ended_leaves_nothing(
    words: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    """A timeout, a hangup and Ctrl-C come while its first pipeline starts, which is when it has most to undo."""
    folder = tmp_path / "t"
    folder.mkdir()
    out = ["--out", str(tmp_path / "reports")] if words[0] == "loadgen" else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *words, *out),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
    )
    try:
        await eventually(lambda: any(folder.glob("inferq-bench-*/*")), timeout_s=ENDS_WITHIN_S)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        async with asyncio.timeout(ENDS_WITHIN_S):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130, err.decode()
    assert b"interrupted; the pipeline is stopped" in err
    assert b"Traceback" not in err
    assert list(folder.iterdir()) == []
    assert not psutil.wait_procs(children, timeout=10)[1]
