"""What the living batchers run: a cached answer is given only where all of them would compute that one."""

from typing import Any

import pytest

from inferq.heartbeats import BatcherBeat, BatchTotals
from ingress.cache import Served, served


def _beat(**changes: Any) -> BatcherBeat:
    fields: dict[str, Any] = {
        "id": "b", "at_ms": 0, "model": "m", "device": "cpu", "state": "idle", "last_progress_s": 0.0,
        "drain_rate": 0.0, "held": [], "seen_ms": {}, "batches": BatchTotals(), "digest": "d", "precision": "int8",
    }  # fmt: skip  # one beat
    return BatcherBeat(**fields | changes)


@pytest.mark.parametrize(
    "beats",
    [
        [_beat()],
        [_beat(), _beat(device="cuda", state="busy")],
        [_beat(), _beat(state="loading", digest="")],
        [_beat(state="restarting"), _beat(model="other", digest="e")],
    ],
)
def test_batchers_that_agree(beats: list[BatcherBeat]) -> None:
    """All that run the model run the same; one that still loads, or runs another model, has no say."""
    assert served(beats, "m") == Served("d", "int8")


@pytest.mark.parametrize(
    "beats",
    [
        [],
        [_beat(model="other")],
        [_beat(state="loading")],
        [_beat(), _beat(digest="e")],
        [_beat(), _beat(precision="fp32")],
        [_beat(), _beat(digest="")],
        [_beat(digest="")],
    ],
)
def test_batchers_that_do_not(beats: list[BatcherBeat]) -> None:
    """None there, two that differ, or one of an earlier version, which does not say what it runs: no answer is sure."""
    assert served(beats, "m") is None
