"""What a caller may do with its jobs: look at them, and cancel them."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inferq.apikeys import may_see
from inferq.errors import AlreadyFinal, JobNotFound
from inferq.jobs import Status
from inferq.keyring import KeyRing, the_one
from inferq.steps import cancel
from inferq.store import Store
from inferq.telemetry import Metrics

_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")


class Jobs:
    """Answers under `/v1/jobs/{job_id}`; the job of another key is like one that there is not."""

    def __init__(self, store: Store, keys: KeyRing, metrics: Metrics) -> None:
        self._store, self._keys = store, keys
        self._cancelled = metrics.jobs.labels(Status.CANCELLED)

    async def show(self, request: Request) -> Response:
        """Answer with the record as it is now."""
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

    async def _find(self, request: Request) -> tuple[str, bytes]:
        caller = self._keys.caller(the_one(request.scope["headers"]))
        job_id = request.path_params["job_id"]
        found = await self._store.owned(job_id) if _JOB_ID.fullmatch(job_id) else None
        if found is None or not may_see(caller, found.owner):
            raise _unknown()
        return job_id, found.record


def _unknown() -> JobNotFound:
    return JobNotFound("no job has this id, or its record has expired")


def _record(record: bytes) -> Response:
    return Response(record, media_type="application/json", headers={"Cache-Control": "no-store"})
