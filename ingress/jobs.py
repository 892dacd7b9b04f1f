"""What a caller may do with its jobs: look at them, wait for their end, and cancel them."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inferq.apikeys import Caller, may_see
from inferq.errors import AlreadyFinal, FieldError, InvalidRequest, JobNotFound
from inferq.follower import UNKNOWN
from inferq.jobs import Status
from inferq.keyring import KeyRing, the_one
from inferq.steps import cancel
from inferq.store import Store
from inferq.telemetry import Metrics
from ingress.prefer import MOST_S
from ingress.waits import Waits

_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_WAIT_ALLOWED: Final = f"must be a whole number of seconds from 1 to {MOST_S}, given once"


class Jobs:
    """Answers under `/v1/jobs/{job_id}`; the job of another key is like one that there is not."""

    def __init__(self, store: Store, keys: KeyRing, waits: Waits, metrics: Metrics) -> None:
        self._store, self._keys, self._waits = store, keys, waits
        self._cancelled = metrics.jobs.labels(Status.CANCELLED)

    async def show(self, request: Request) -> Response:
        """Answer with the record as it is now; with `?wait=N` once it is final, or so many seconds later.

        Raises:
            InvalidRequest: N is not a whole number from 1 to 60.
        """
        if "wait" in request.query_params:
            caller, job_id = self._asked(request)
            waited = await self._waits.final_record(caller, job_id, _seconds(request), request.receive)
            if waited.record is not None:
                return _record(waited.record)
        _, record = await self._find(request)
        return _record(record)

    async def cancel(self, request: Request) -> Response:
        """Cancel the job and answer with its record; raises `AlreadyFinal` when it has ended."""
        job_id, _ = await self._find(request)
        moved = await self._store.move(cancel(job_id))
        if not moved.applied:
            if moved.status is None:
                raise _unknown()
            raise AlreadyFinal(f"the job is {moved.status} already, and stays so")
        self._cancelled.inc()
        record = await self._store.read(job_id)
        if record is None:
            raise _unknown()
        return _record(record)

    def _asked(self, request: Request) -> tuple[Caller, str]:
        """Return who asks and for which job; raises `Unauthorized`, or `JobNotFound` where no job can have this id."""
        caller = self._keys.caller(the_one(request.scope["headers"]))
        job_id: str = request.path_params["job_id"]
        if not is_job_id(job_id):
            raise _unknown()
        return caller, job_id

    async def _find(self, request: Request) -> tuple[str, bytes]:
        caller, job_id = self._asked(request)
        found = await self._store.owned(job_id)
        if found is None or not may_see(caller, found.owner):
            raise _unknown()
        return job_id, found.record


def is_job_id(text: str) -> bool:
    """Say whether a text is what ids of jobs are made of."""
    return _JOB_ID.fullmatch(text) is not None


def _seconds(request: Request) -> int:
    given = request.query_params.getlist("wait")
    if len(given) > 1 or not _SECONDS.fullmatch(given[0]) or not 1 <= int(given[0]) <= MOST_S:
        raise InvalidRequest(
            "wait " + _WAIT_ALLOWED, errors=[FieldError(pointer="", detail="wait " + _WAIT_ALLOWED)]
        )
    return int(given[0])


def _unknown() -> JobNotFound:
    return JobNotFound(UNKNOWN)


def _record(record: bytes) -> Response:
    return Response(record, media_type="application/json", headers={"Cache-Control": "no-store"})
