"""What processes used, beside what this process says of itself."""

import os
import subprocess
import sys
import time

import pytest

from loadgen import cputime
from loadgen.cputime import CpuMeter


def test_a_process_time_lies_within_what_the_process_itself_counts() -> None:
    """A millisecond of work counts as no less than that and no more than all around it: no steps of 10 ms."""
    outer = time.process_time()
    meter = CpuMeter({"own": os.getpid()})
    inner = time.process_time()
    while time.process_time() - inner < 0.001:
        pass
    inner = time.process_time() - inner
    used = meter.seconds()["own"]
    assert inner <= used <= time.process_time() - outer


def test_a_system_without_such_clocks_has_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps of 10 ms are better than nothing."""
    monkeypatch.setattr(cputime, "_clock_of", cputime._nowhere)
    meter = CpuMeter({"own": os.getpid()})
    begun = time.process_time()
    while time.process_time() - begun < 0.03:
        pass
    assert 0.01 <= meter.seconds()["own"] < 1


def test_a_process_that_ended_counts_nothing() -> None:
    """What it used is lost, and nothing fails."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        meter = CpuMeter({"ended": process.pid})
        process.communicate(b"\n")
    assert meter.seconds()["ended"] <= 0
