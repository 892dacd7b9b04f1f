"""Runs dead letters again."""

import os
import time
from typing import TYPE_CHECKING

import msgspec

from inferq.jobs import Job
from inferq.messages import DeadLetter, decode_job, encode_job
from inferq.names import Names
from inferq.steps import Origin

if TYPE_CHECKING:
    # Its package brings the clients of both brokers, which commands import late.
    from inferq.broker.base import Broker


async def replay(broker: "Broker", names: Names, letter: DeadLetter) -> str:
    """Accept the job of a letter as a new one without a deadline, and return its id; the letter stays.

    Whoever calls drops the letter next, so that a crash in between loses no job.

    Raises:
        Undecodable: the letter holds a message that cannot be read.
        QueueFull: as many jobs wait as may.
        Unavailable: Redis or the broker is away, or did not confirm in time.
    """
    job = _renewed(decode_job(letter.body))
    await broker.accept(Origin(job=job, queue=names.queue_of(job), message=encode_job(job)))
    return job.job_id


def _renewed(job: Job) -> Job:
    return msgspec.structs.replace(
        job, job_id=os.urandom(16).hex(), created_ms=int(time.time() * 1000), deadline_ms=None
    )
