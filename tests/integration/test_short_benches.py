"""Every part of every bench in its brief form, as `make bench` runs it: that it works, and nothing about times."""

import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest

from loadgen.bench import PARTS
from loadgen.capacity.costs import decode

WITHIN_S: Final = 110
# Where a broker of its own makes a difference to what runs; elsewhere one is enough, and Streams starts sooner.
ON_RABBITMQ: Final = {
    ("admission", "accepted"),
    ("admission", "publish"),
    ("admission", "spike"),
    ("admission", "overload"),
    ("push", "latency"),
    ("loadgen", "costs"),
}
ON_BOTH: Final = {("admission", "accepted"), ("admission", "spike"), ("push", "latency")}
# A figure that counts has to be exactly its goal however slow the machine; any other goal is about time or size.
MISSED: Final = re.compile(r"^.* \(goal (?!at )[^)]*\) falls short$", re.MULTILINE)
FIGURE: Final = re.compile(r"^.+: \S+ ")


def brokers(bench: str, part: str) -> Collection[str]:
    """Return where a part is run."""
    if (bench, part) in ON_BOTH:
        return ("streams", "rabbitmq")
    return ("rabbitmq",) if (bench, part) in ON_RABBITMQ else ("streams",)


SHORT: Final = [
    pytest.param(bench, part, broker, id=f"{bench}-{part}-{broker}")
    for bench, parts in PARTS.items()
    for part in parts
    for broker in brokers(bench, part)
]


@pytest.mark.short_bench
@pytest.mark.parametrize(("bench", "part", "broker"), SHORT)
def test_a_part_works(
    bench: str, part: str, broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It prints its figures below the line about the machine, ends well, and nothing is lost, refused or missed."""
    if broker == "rabbitmq":
        request.getfixturevalue("rabbitmq_installed")
    out = ["--out", str(tmp_path / "found.json")] if part == "costs" else []
    command = ["--only", bench, "--part", part, "--broker", broker, "--brief", *out]
    ended = subprocess.run(
        [sys.executable, "-m", "loadgen.bench", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stderr
    first, *lines = ended.stdout.splitlines()
    assert " cores (" in first
    assert lines
    assert [line for line in lines if not FIGURE.match(line)] == []
    assert MISSED.findall(ended.stdout) == [], ended.stderr
    if out:
        assert decode((tmp_path / "found.json").read_bytes()).jobs[0].broker == broker
