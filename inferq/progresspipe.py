"""Progress of a child process, told over a pipe: its standard output is its result, its errors are the operator's."""

import os
import subprocess
import tempfile
from collections.abc import Sequence

import msgspec

from inferq.modelfolder import Progress, no_progress


class _Step(msgspec.Struct, frozen=True, array_like=True):
    what: str
    done: int
    total: int


def reporter(fd: int | None) -> Progress:
    """Return the child's end: what takes progress and writes it to a file descriptor, if there is one."""
    if fd is None:
        return no_progress
    said: list[tuple[str, int]] = []

    def report(what: str, done: int, total: int) -> None:
        # A line for each per mille is as fine as anybody can see
        step = (what, done * 1000 // total if total else 0)
        if said == [step]:
            return
        said[:] = [step]
        try:
            os.write(fd, msgspec.json.encode(_Step(what, done, total)) + b"\n")
        except OSError:
            # Nobody reads any more; the work goes on without
            return

    return report


def run(argv: Sequence[str], progress: Progress) -> tuple[int, str]:
    """Run a command that takes ``--progress-fd``, pass on its progress, and return exit code and standard output."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output, os.fdopen(reading, "rb") as steps:
        try:
            process = subprocess.Popen(
                [*argv, "--progress-fd", str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                pass_fds=[writing],
            )
        finally:
            os.close(writing)
        with process:
            for line in steps:
                step = msgspec.json.decode(line, type=_Step)
                progress(step.what, step.done, step.total)
        output.seek(0)
        return process.returncode, output.read().decode()
