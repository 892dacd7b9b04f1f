"""The picture of the statistics, as a terminal shows it."""

from typing import Any

import pytest
from rich.console import Console

from inferq.cli.dashboard import MOST_BATCHERS, TWO_HALVES_WIDTH, line, render
from inferq.cli.history import History


def found(**changes: Any) -> dict[str, Any]:
    """Statistics of a pipeline that works."""
    times = {"count": 10, "p50": 8.12, "p90": 74.9, "p99": 12_345.6}
    batcher = {
        "id": "host-1", "model": "builtin", "device": "cpu", "fallback_reason": None, "precision": "fp32",
        "layout": "2 runs of 1 thread", "state": "busy", "last_progress_s": 0.12,
    }  # fmt: skip  # as the API gives it
    return {
        "queue": {"depth": 1_234, "dead": 2, "arrival_rate": 812.3, "drain_rate": 798.0},
        "batchers": [batcher, batcher | {"id": "host-2", "state": "restarting"}],
        "batches": {
            "count": 640, "jobs": 4480, "size_histogram": {"1": 40, "7": 600},
            "close_reasons": {"greedy": 40, "slo": 600}, "tokens": 75, "padded_tokens": 100,
            "expired": 1, "splits": 0, "engine_restarts": 2, "predicted_ms": 1.0, "inference_ms": 1.0,
        },
        "cache": {"hits": 31, "misses": 4480},
        "latency_ms": {"queue_wait": times, "inference": times, "total": times},
    } | changes  # fmt: skip  # as the API gives it


def picture(history: History, width: int, **more: str) -> list[str]:
    """The lines that a terminal shows."""
    console = Console(width=width, color_system=None, force_terminal=True, legacy_windows=False)
    with console.capture() as captured:
        console.print(
            render(history, width=width, place="http://127.0.0.1:8080", clock="12:00:03 UTC", **more)
        )
    return captured.get().splitlines()


def seen(count: int = 300, **changes: Any) -> History:
    """A history of so many samples, a second apart."""
    history = History()
    for second in range(count):
        history.add(float(second), found(**changes))
    return history


def test_80_columns_and_24_rows_show_everything() -> None:
    """Queue with its course, percentiles, batch sizes, and each batcher; nothing is cut."""
    lines = picture(seen(1), 80)
    text = "\n".join(lines)
    assert len(lines) <= 23
    for part in (
        "http://127.0.0.1:8080", "12:00:03 UTC", "waiting            1,234", "arrival/s          812.3",
        "dead letters           2",
        "queue wait         8.1     74.9   12,346", "batch sizes", "5-8", "slo 600, greedy 40", "25.0% of the tokens",
        "0 splits, 2 engine restarts, 1 expired, 31 same inputs", "host-1", "host-2", "restarting", "0.1 s ago",
    ):  # fmt: skip  # the parts side by side
        assert part in text
    assert "…" not in text


@pytest.mark.parametrize("width", [40, 60, 75, 76, 80, 119, 120, 200])
def test_no_line_is_wrapped_or_too_long(width: int) -> None:
    """What does not fit is cut, and however wide the terminal, a picture of its own width is drawn."""
    long = found()["batchers"][0] | {"id": "h" * 100, "model": "m" * 300}
    history = seen(600, batchers=[long] * 3)
    lines = picture(history, width, trouble="a very long reason " * 20)
    wide = picture(history, 120, trouble="a very long reason " * 20)
    assert all(len(one) <= min(width, 120) for one in lines)
    # Side by side becomes one under the other: a blank line and that nothing ran. Nothing else changes.
    assert len(lines) == len(wide) + (3 if width < TWO_HALVES_WIDTH else 0)


def test_nothing_yet_and_nothing_alive_are_said() -> None:
    """Before the first answer there is a place and a reason; a pipeline that has run nothing has no figures."""
    lines = picture(History(), 80, trouble="unreachable: it does not answer")
    assert [one.rstrip() for one in lines[1:]] == ["unreachable: it does not answer"]
    nothing = {"size_histogram": {}, "close_reasons": {}, "tokens": 0, "padded_tokens": 0}
    batches = found()["batches"] | nothing
    queue = {"depth": 0, "dead": 0, "arrival_rate": 0.0, "drain_rate": 0.0}
    text = "\n".join(picture(seen(2, batchers=[], batches=batches, latency_ms={}, queue=queue), 80))
    assert "no batcher is alive" in text
    assert "none ran" in text
    assert "total                -        -        -" in text
    assert "▁▁" in text


def test_many_batchers_are_counted_and_controls_are_harmless() -> None:
    """The rows are bounded; what a batcher calls itself cannot move the cursor."""
    batcher = found()["batchers"][0] | {"id": "x\x1b[2Jy", "fallback_reason": "no CUDA"}
    lines = picture(seen(1, batchers=[batcher] * 40), 80)
    assert lines[-1].rstrip() == f"and {40 - MOST_BATCHERS} more"
    assert sum("x [2Jy" in one for one in lines) == MOST_BATCHERS


def test_a_line_for_where_nobody_watches() -> None:
    """The same in one line; an older deployment tells no percentiles."""
    assert line(found(), "12:00:03 UTC") == (
        "12:00:03 UTC  1234 waiting, 2 dead, 812.3/s in, 798.0/s out, total p50 8.1 ms, p99 12,346 ms, 2 batchers"
    )
    assert "p50 - ms" in line({**found(), "latency_ms": {}}, "x")


def test_breakers_are_shown_while_they_are_not_closed() -> None:
    """Which, whose, and for how long they stay open; a service that has none, or an older one, says nothing."""
    one = {"name": "engine", "node": "host-2", "state": "closed", "half_open_in_s": 0.0}
    open_, half = (
        one | {"state": "open", "half_open_in_s": 12.4},
        one | {"state": "half_open", "name": "redis"},
    )
    for quiet in ([], [one, one]):
        assert "breakers" not in "\n".join(picture(seen(1, breakers=quiet), 80))
    shown = picture(seen(1, breakers=[one, open_, half]), 100)
    assert "breakers     engine of host-2 is open for 12 s, redis of host-2 is half-open" in [
        each.rstrip() for each in shown
    ]


def test_shards_are_shown_under_hash_routing() -> None:
    """How many each batcher has, and how many nobody has, if there are such; 80 columns suffice."""
    first, second = found()["batchers"]
    owners = [first | {"shards": list(range(40))}, second | {"shards": []}]
    routing = {"routing": "hash", "shards": 64, "unowned": list(range(40, 64))}
    shown = "\n".join(picture(seen(1, batchers=owners, routing=routing), 80))
    assert "shards       24 of 64 are nobody's: their jobs wait" in shown
    assert "host-1   busy        40      cpu" in shown
    assert "host-2   restarting  0       cpu" in shown
    assert "…" not in shown
    whole = "\n".join(picture(seen(1, batchers=owners, routing=routing | {"unowned": []}), 80))
    assert "nobody" not in whole
    shared = {"routing": "shared", "shards": 1, "unowned": []}
    assert "shards" not in "\n".join(picture(seen(1, routing=shared), 80))
