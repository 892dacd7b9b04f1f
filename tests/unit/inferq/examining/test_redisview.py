"""What a Redis says of itself, judged."""

from typing import Any

import pytest

from inferq.cli.examining.finding import Finding, Grade
from inferq.cli.examining.redisview import judge, judge_memory

HEALTHY: dict[str, Any] = {"redis_version": "7.2.4", "aof_enabled": 1, "role": "master", "loading": 0}


def judged(config: dict[str, str] | None = None, latency_ms: float = 0.2, **changes: Any) -> list[Finding]:
    """Judge a Redis that is well but for some changes."""
    return judge("redis://h", {**HEALTHY, **changes}, config or {}, latency_ms)


def test_a_healthy_one_is_well() -> None:
    """By name, version and round trip; Valkey by its own version, though it says an old one of Redis."""
    (found,) = judged()
    assert (found.grade, found.detail) == (
        Grade.OK,
        "redis://h: Redis 7.2.4, durable, evicts nothing, answers in 0.20 ms",
    )
    (found,) = judged(valkey_version="9.1.2", redis_version="6.0.0")
    assert "Valkey 9.1.2" in found.detail


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"aof_enabled": 0}, "no append-only file"),
        ({"maxmemory": 100, "maxmemory_policy": "allkeys-lru"}, "may evict records (allkeys-lru)"),
        ({"redis_version": "6.0.16"}, "Redis 6.0.16 is too old"),
        ({"redis_version": "odd"}, "Redis odd is too old"),
        ({"role": "slave"}, "is a replica"),
        ({"loading": 1}, "still reads its data"),
        ({"aof_last_write_status": "err"}, "the last write of its append-only file failed"),
        ({"aof_last_bgrewrite_status": "err"}, "the last rewrite of its append-only file failed"),
    ],
)
def test_what_could_lose_or_refuse_jobs_is_wrong(changes: dict[str, Any], said: str) -> None:
    """Each with its cure, and nothing else is said."""
    (found,) = judged(**changes)
    assert found.grade is Grade.WRONG
    assert said in found.detail
    assert found.cure


@pytest.mark.parametrize(
    ("config", "latency_ms", "said"),
    [
        ({"appendfsync": "everysec"}, 0.2, "may lose up to a second of accepted jobs"),
        ({"appendfsync": "no"}, 0.2, "may lose what the system had not written"),
        ({"appendfsync": "always"}, 80.0, "a round trip takes 80 ms"),
    ],
)
def test_what_could_be_better_is_a_note(config: dict[str, str], latency_ms: float, said: str) -> None:
    """Beside what is well."""
    well, remark = judged(config, latency_ms)
    assert (well.grade, remark.grade) == (Grade.OK, Grade.NOTE)
    assert said in remark.detail
    assert remark.cure


@pytest.mark.parametrize(
    ("used", "limit", "total", "grade", "said"),
    [
        (95, 100, 1000, Grade.WRONG, "95 MiB of the 100 MiB that are its maxmemory: soon it takes no jobs"),
        (80, 100, 1000, Grade.NOTE, "80 MiB of the 100 MiB that are its maxmemory"),
        (80, 0, 1000, Grade.OK, "80 MiB of the 1000 MiB that its machine has"),
        (950, 0, 1000, Grade.WRONG, "of the 1000 MiB that its machine has"),
        (80, 0, 0, Grade.OK, "it does not say of how much"),
    ],
)
def test_memory_is_judged_by_its_limit(used: int, limit: int, total: int, grade: Grade, said: str) -> None:
    """By maxmemory, else by what the machine has."""
    mib = 1024 * 1024
    info = {"used_memory": used * mib, "maxmemory": limit * mib, "total_system_memory": total * mib}
    (found,) = judge_memory(info)
    assert found.grade is grade
    assert said in found.detail
    assert bool(found.cure) == (grade is not Grade.OK)
