"""What every service does the same way."""

import os
import resource
import socket
import subprocess
import sys

import pytest

from inferq.process import MOST_FILES, process_id


def test_a_process_is_named_so_that_no_other_is() -> None:
    """Host and number are for people; the rest tells a process from one that had its number before."""
    first, second = process_id(), process_id()
    assert first != second
    assert first.startswith(f"{socket.gethostname()}-{os.getpid()}-")


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [(1024, 4096, 4096), (1024, 1_000_000, MOST_FILES), (100_000, 1_000_000, 100_000), (512, 512, 512)],
)
def test_a_service_may_open_as_many_files_as_the_system_allows(soft: int, hard: int, then: int) -> None:
    """Up to a bound, and never fewer than it might before; tried in a process of its own."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed != resource.RLIM_INFINITY:
        soft, hard, then = (min(files, allowed) for files in (soft, hard, then))
    program = (
        "import resource, inferq.process as process\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "process._allow_files()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    argv = [sys.executable, "-c", program]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert int(ran.stdout) == then
