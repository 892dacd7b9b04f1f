"""What the bench of hash routing and of look-ups makes of what it found."""

from loadgen import lookup
from loadgen.hashrouting import Found, Split, judged, split, table

STATS = {
    "batchers": [
        {"id": "a", "shards": [0, 2], "cache": {"size": 1, "hits": 9, "misses": 1, "hit_us": 2.5}},
        {"id": "b", "shards": [1], "cache": {"size": 0, "hits": 0, "misses": 0, "hit_us": None}},
    ]
}


def part(*shards: int, kept: int = 5, hits: int = 90, misses: int = 10) -> Split:
    """One batcher's part."""
    return Split(shards=frozenset(shards), kept=kept, hits=hits, misses=misses, hit_us=1.5)


def test_the_split_is_read_and_shown() -> None:
    """A line a batcher; what is not known is a dash."""
    parts = split(STATS)
    assert parts["a"] == Split(shards=frozenset({0, 2}), kept=1, hits=9, misses=1, hit_us=2.5)
    shown = table("here", parts).splitlines()
    assert shown[0] == "here:"
    assert shown[1].split() == ["batcher", "shards", "kept", "hits", "misses", "rate", "a", "hit"]
    assert shown[2].split() == ["a", "2", "1", "9", "1", "90.0%", "2.5", "us"]
    assert shown[3].split() == ["b", "1", "0", "0", "0", "-", "-"]


def test_the_figures_say_what_holds() -> None:
    """Rows, results, moves of survivors and losses have to be exact."""
    found = Found(
        requests=200,
        seconds=2.0,
        computed=10,
        before={"a": part(0), "b": part(1)},
        after={"a": part(0)},
        strayed=1,
        moved=1,
        lost=0,
    )
    lines = [figure.line() for figure in judged("streams", found)]
    assert lines == [
        "hash routing, streams, 10 inputs: 100 requests/s",
        "hash routing, streams, rows computed: 10 rows (goal 10 rows) holds",
        "hash routing, streams, results kept in all caches: 10 results (goal 10 results) holds",
        "hash routing, streams, found in a cache: 90 %",
        "hash routing, streams, survivors' shards that moved when one was killed: 1 shards (goal 0 shards) falls short",
        "hash routing, streams, shards of the killed one: 1 shards",
        "hash routing, streams, accepted and not done: 0 jobs (goal 0 jobs) holds",
    ]


def test_look_ups_are_timed_one_by_one() -> None:
    """Each finds what was kept."""
    took_us = lookup.measured(50)
    assert len(took_us) == 50
    assert min(took_us) > 0
    median, p99 = lookup.judged(took_us)
    assert median.unit == p99.unit == "us"
    assert "at most 9.9 us" in median.line()
