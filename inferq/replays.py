"""Runs dead letters again, at most once each.

The new job's id follows from the letter's, so whoever replays a letter that was replayed already, at the same time or
because it could not be removed then, finds the job that there is. Only a job that was taken back, as the broker did not
take its message, leaves its id for the next one. This holds for as long as the new job's record is kept.
"""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from inferq.errors import HttpError, Undecodable
from inferq.jobs import Job
from inferq.messages import DeadLetter, decode_job, encode_job
from inferq.names import Names
from inferq.steps import Origin

if TYPE_CHECKING:
    # Its package brings the clients of both brokers, which commands import late.
    from inferq.broker.base import Broker

MOST_AT_ONCE: Final = 100
# So many tries that the broker did not take, and one more.
MOST_TAKEN_BACK: Final = 100


@dataclass(frozen=True, kw_only=True)
class Replays:
    """What became of letters, by the ids of their jobs: the new jobs' ids, and why a letter stays.

    ``refused`` says that the queue is full or something is away, as it is for other letters too.
    """

    replayed: Mapping[str, str]
    failed: Mapping[str, str]
    refused: bool


async def replay(broker: "Broker", names: Names, letters: Sequence[DeadLetter]) -> Replays:
    """Accept the jobs of at most `MOST_AT_ONCE` letters as new ones without a deadline, then remove these letters.

    A crash in between loses no job. A letter may be in both lists: its job runs again, and it could not be removed.
    """
    replayed: dict[str, str] = {}
    failed: dict[str, str] = {}
    errors: dict[str, str] = {}
    left: dict[str, Job] = {}
    served = set(names.queues())
    for letter in letters[:MOST_AT_ONCE]:
        try:
            job = decode_job(letter.body)
        except Undecodable as error:
            failed[letter.job_id] = f"cannot run again: {error.reason}"
            continue
        if names.queue_of(job) in served:
            left[letter.job_id] = job
        else:
            failed[letter.job_id] = "cannot run again: its model is not served here any more"
    for number in range(MOST_TAKEN_BACK + 1):
        if not left:
            break
        refused = await _accept(broker, names, left, number, replayed)
        left = {old_id: left[old_id] for old_id, error in refused.items() if _taken_back(error)}
        errors |= {old_id: error.detail for old_id, error in refused.items() if old_id not in left}
    failed |= dict.fromkeys(left, "its new job was taken back too often: try again when records have expired")
    if replayed:
        try:
            await broker.drop_dead(set(replayed))
        except HttpError as error:
            errors |= dict.fromkeys(
                replayed, f"runs again, but its letter could not be removed: {error.detail}"
            )
    return Replays(replayed=replayed, failed=failed | errors, refused=bool(errors))


async def _accept(
    broker: "Broker", names: Names, jobs: Mapping[str, Job], number: int, replayed: dict[str, str]
) -> dict[str, HttpError]:
    """Accept jobs under the ids of this number; note those that are, return why others are not."""
    renewed = [_renewed(job, old_id, number) for old_id, job in jobs.items()]
    # Each maker has a name of its own: by it a job that is being taken back is told from one that was.
    maker = os.urandom(8).hex()
    origins = [
        Origin(job=job, queue=names.queue_of(job), message=encode_job(job), submit=maker) for job in renewed
    ]
    # Late, as its package is above.
    from inferq.store import ID_TAKEN

    # Not as a repeat at first: a repeat need not wait for room in the queue.
    answers = await broker.accept_many(origins)
    again = [place for place, error in enumerate(answers) if error is not None and error.detail == ID_TAKEN]
    if again:
        repeated = await broker.accept_many([origins[place] for place in again], resumed=True)
        for place, error in zip(again, repeated, strict=True):
            answers[place] = error
    refused: dict[str, HttpError] = {}
    for old_id, job, error in zip(jobs, renewed, answers, strict=True):
        if error is None:
            replayed[old_id] = job.job_id
        else:
            refused[old_id] = error
    return refused


def _taken_back(error: HttpError) -> bool:
    from inferq.broker.base import TakenBack

    return isinstance(error, TakenBack)


def _renewed(job: Job, old_id: str, number: int) -> Job:
    job_id = hashlib.sha256(f"replay {old_id} {number}".encode()).hexdigest()[:32]
    return msgspec.structs.replace(job, job_id=job_id, created_ms=int(time.time() * 1000), deadline_ms=None)
