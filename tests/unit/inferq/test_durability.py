"""What INFO says against keeping records in a Redis."""

from typing import Any

import pytest

from inferq.durability import weaknesses

KEEPS = {"aof_enabled": 1, "maxmemory": 0, "maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (KEEPS, []),
        ({**KEEPS, "maxmemory_policy": "allkeys-lru"}, []),
        ({**KEEPS, "maxmemory": 1000, "maxmemory_policy": "allkeys-lru"}, ["evict"]),
        ({**KEEPS, "aof_enabled": 0}, ["append-only"]),
        ({"maxmemory": 1, "maxmemory_policy": "volatile-ttl"}, ["evict", "append-only"]),
    ],
)
def test_names_what_may_be_lost(info: dict[str, Any], words: list[str]) -> None:
    """Eviction counts only with a memory limit; no append-only file always does. Each comes with a cure."""
    found = weaknesses(info)
    assert [word in weakness.detail for word, weakness in zip(words, found, strict=True)] == [True] * len(
        words
    )
    assert all("set" in weakness.cure for weakness in found)
