"""An interrupt while a program is imported ends it without a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.interrupts import heard, quiet
from loadgen.reports.environment import ROOT


@pytest.mark.parametrize("module", ["loadgen.bench", "loadgen.peers"])
def test_an_interrupt_at_an_import_shows_nothing(module: str, tmp_path: Path) -> None:
    """The status is that of the signal."""
    (tmp_path / "uvloop.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = subprocess.run(
        [sys.executable, "-m", module],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == b""


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    """Otherwise it is heard again once all is imported."""
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        quiet()
        heard()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        quiet()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        heard()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
