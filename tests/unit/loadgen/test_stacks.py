"""Which step a sampled stack counts for."""

import pytest

from loadgen.stacks import NAMES, REST, shares, step_of

MAIN = "<module> (batcher/__main__.py:40);Runner.run (asyncio/runners.py:118)"


@pytest.mark.parametrize(
    ("frames", "step"),
    [
        ("", "the loop"),
        (
            "Settler.finish (batcher/settling.py:9);StreamConsumer.ack (inferq/broker/stream_consumer.py:9)",
            "ack",
        ),
        ("Worker.deliver (batcher/worker.py:9);FolderTokenizer.encode (batcher/tokenizer.py:50)", "tokenise"),
        ("Worker.deliver (batcher/worker.py:9)", "consume"),
        (
            "StreamConsumer._read (inferq/broker/stream_consumer.py:9);Pipeline.call (inferq/pipeline.py:7)",
            "consume",
        ),
        (
            "StreamConsumer.ack (inferq/broker/stream_consumer.py:9);Connection.send (inferq/connection.py:7)",
            "ack",
        ),
        ("Settler.start (batcher/settling.py:9);Connection.send (inferq/connection.py:7)", "start"),
        ("Settler.finish (batcher/settling.py:9);isoformat (inferq/jobs.py:7)", "finish"),
        ("Settler.finish (batcher/settling.py:9);Counter.inc (prometheus_client/metrics.py:7)", "counting"),
        ("Planner.next (batcher/planner.py:9);cut (batcher/composition.py:7)", "compose"),
        ("Engine.run (batcher/engine.py:9);StreamWriter.write (asyncio/streams.py:343)", "engine's link"),
        ("Connection._flush (inferq/connection.py:159)", "link to Redis"),
        ("/venv/site-packages/pamqp/frame.py (/venv/site-packages/pamqp/frame.py:9)", "link to RabbitMQ"),
        ("Worker._loop (batcher/worker.py:9);Lock.acquire (asyncio/locks.py:9)", "the worker's own"),
    ],
)
def test_the_innermost_frame_that_is_known_decides(frames: str, step: str) -> None:
    """A library's work counts for its caller; links and loop only take what has no caller of a step."""
    assert step_of(f"{MAIN};{frames}" if frames else MAIN) == step


def test_what_nobody_knows_is_the_rest() -> None:
    """A thread of a library, a frame without a file; and the loop alone is the loop."""
    assert step_of("work (threading.py:1)") == REST
    assert step_of("native") == REST
    assert step_of("Runner.run (asyncio/runners.py:118)") == "the loop"


def test_shares_of_all_samples() -> None:
    """They add up to 1, in a fixed order, without those that have none; lines that are no samples are skipped."""
    lines = [
        f"{MAIN};encode (batcher/tokenizer.py:5) 30",
        "odd 10",
        "work (threading.py:1) 60",
        "",
        "no count",
    ]
    assert shares(lines) == {"tokenise": 0.3, REST: 0.7}
    assert list(shares(lines)) == [name for name in NAMES if name in shares(lines)]
    assert shares([]) == {}
