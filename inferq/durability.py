"""Whether a Redis keeps what it is given: every promise about an accepted job rests on that. Pure.

Read from INFO, which managed servers answer where they refuse CONFIG.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Weakness:
    """What may be lost, and the cure."""

    detail: str
    cure: str


def weaknesses(info: Mapping[str, Any]) -> list[Weakness]:
    """Return what INFO (its sections memory and persistence) says against keeping records there."""
    found = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and int(info.get("maxmemory", 0)) > 0:
        found.append(
            Weakness(
                detail=f"it may evict records ({policy})", cure="set maxmemory-policy to noeviction there"
            )
        )
    if not int(info.get("aof_enabled", 0)):
        found.append(
            Weakness(
                detail="it has no append-only file, so accepted jobs may be lost when it dies",
                cure="set appendonly to yes there",
            )
        )
    return found
