"""What every service does the same way."""

import os
import socket

from inferq.process import process_id


def test_a_process_is_named_so_that_no_other_is() -> None:
    """Host and number are for people; the rest tells a process from one that had its number before."""
    first, second = process_id(), process_id()
    assert first != second
    assert first.startswith(f"{socket.gethostname()}-{os.getpid()}-")
