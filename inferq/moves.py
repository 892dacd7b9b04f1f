"""Steps as calls of the script that makes them, and its answers as values. Pure.

Steps that follow each other and differ in nothing but their jobs go into one call: to the batcher and to the server a
call costs as much as the move in it. A call holds at most `MOST_JOBS`, since nobody else is served meanwhile.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from inferq.jobs import FINAL, Move, Status, sources, target
from inferq.names import Names
from inferq.steps import Moved, Step

MOST_JOBS: Final = 32

Call = tuple[list[str], list[Any]]
"""Keys and arguments of one call of a script."""

_FLAGS: Final = {Move.START: "S", Move.FINISH: "F", Move.FAIL: "F", Move.CANCEL: "F", Move.EXPIRE: "F"}
_LEAVES: Final = {move: f",{','.join(sorted(sources(move)))}," for move in Move}
# A record that was lost is rebuilt as what it must have been for the move to make sense.
_REBUILT: Final = {
    Move.START: Status.QUEUED,
    Move.FINISH: Status.RUNNING,
    Move.FAIL: Status.RUNNING,
    Move.EXPIRE: Status.QUEUED,
    Move.GIVE_BACK: Status.RUNNING,
}
_STATUSES: Final = {status.encode(): status for status in Status}

_encode = msgspec.json.Encoder().encode


def move_calls(steps: Sequence[Step], names: Names, *, result_ttl_s: int) -> Iterator[Call]:
    """Yield the calls that make steps, in their order; ``result_ttl_s`` is how long a final record is kept."""
    for _, alike in groupby(steps, _kind):
        group = list(alike)
        for first in range(0, len(group), MOST_JOBS):
            yield _move_call(group[first : first + MOST_JOBS], names, result_ttl_s)


def moves(answers: Sequence[Sequence[Any]]) -> list[Moved]:
    """Read the answers to the calls of `move_calls`, one value for each step."""
    return [_moved(answer) for answer in answers for answer in answer]


def rebuilt_as(step: Step) -> Status | None:
    """Return the status in which a lost record is made anew for a step; None when it is not."""
    return None if step.origin is None else _REBUILT.get(step.move)


def _kind(step: Step) -> tuple[Any, ...]:
    return (step.move, step.charge, step.batch, step.history, *step.fields)


def _move_call(steps: list[Step], names: Names, result_ttl_s: int) -> Call:
    one = steps[0]
    final = target(one.move) in FINAL
    return (
        [names.open_jobs, *(names.job(step.job_id) for step in steps)],
        [
            names.announced,
            names.before_id,
            _LEAVES[one.move],
            str(target(one.move)),
            result_ttl_s if final else "",
            _FLAGS.get(one.move, "") + ("C" if one.charge else ""),
            one.history,
            "" if one.batch is None else _encode(one.batch),
            len(one.fields),
            *one.fields,
            *(value for step in steps for value in step.fields.values()),
        ],
    )  # numbered as in the script's head


def _moved(answer: Sequence[Any]) -> Moved:
    code, status, seq, attempt, charges, dead, history = answer
    # A status that is none of ours was written by somebody else, as a key that holds no hash.
    known = _STATUSES.get(status)
    return Moved(
        applied=code == 1,
        status=known,
        seq=seq,
        attempt=attempt,
        charges=charges,
        burial_due=dead == b"due",
        history=b"[" + history + b"]" if history else b"[]",
        foreign=code == -2 or (known is None and code != -1),
    )
