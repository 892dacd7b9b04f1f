"""Makes outcomes of rounds by hand."""

from collections.abc import Mapping, Sequence

from loadgen.latencies import Latencies
from loadgen.peers.rounds import SHARES, Arm, Level, Outcome, Round

BARE = {"arrival order": 80.0, "one by one": 100.0}


def level(share: float, p99_ms: float, *, answered: int = 100, invalid: Sequence[str] = ()) -> Level:
    """Return a level of 100 requests, those of the upper half of which took ``p99_ms``, the others half of that."""
    kept = Latencies()
    for number in range(answered):
        kept.record_ms(p99_ms / (2 if number < 50 else 1))
    return Level(
        share=share,
        rate=share * 100,
        offered=100,
        answered=answered,
        errors={"no_answer": 100 - answered} if answered < 100 else {},
        p50_ms=p99_ms / 2,
        p99_ms=p99_ms,
        cpu_ms=4.0,
        encoded=kept.encode(),
        invalid=list(invalid),
    )


def arm(*p99s_ms: float, per_s: float) -> Arm:
    """Return an arm with these levels, from the lowest on."""
    levels = [level(share, p99_ms) for share, p99_ms in zip(SHARES, p99s_ms, strict=False)]
    return Arm(levels=levels, saturated_per_s=per_s, refused={})


def outcome(*rounds: Mapping[str, Arm], failed: Mapping[str, str] | None = None) -> Outcome:
    """Return the outcome of rounds with these arms."""
    found = [Round(bare=dict(BARE), arms=dict(arms), failed=dict(failed or {})) for arms in rounds]
    return Outcome(kind="builtin", loop="one by one", rate=100.0, rounds=found)
