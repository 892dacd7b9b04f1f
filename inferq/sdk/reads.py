"""What is asked of the API besides submits: a record, a cancellation, the statistics."""

from typing import Any, Final

import msgspec

from inferq.jobs import Status
from inferq.sdk import answers
from inferq.sdk.errors import AlreadyFinal
from inferq.sdk.http import REQUEST_TIMEOUT_S, Http, Tries
from inferq.sdk.records import Record, decode_record

# These are tried again only because a connection may have ended unnoticed.
_FOR_S: Final = 1.0


class Reads:
    """Calls that are answered at once; all raise `RequestRefused` or `Unreachable`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def record(self, job_id: str) -> Record:
        """Return a job's record as it is now."""
        return await self._record("GET", job_id)

    async def cancel(self, job_id: str) -> Record:
        """Cancel a job and return its record."""
        tries = Tries()
        try:
            return await self._record("DELETE", job_id, tries)
        except AlreadyFinal:
            if not tries.unknown:
                raise
            # The try whose answer was lost may have been the one that did it.
            record = await self.record(job_id)
            if record.status is Status.CANCELLED:
                return record
            raise

    async def stats(self) -> dict[str, Any]:
        """Return the deployment's statistics."""
        response = await self._http.insist("GET", "/v1/stats", for_s=_FOR_S, timeout_s=REQUEST_TIMEOUT_S)
        try:
            return msgspec.json.decode(response.content, type=dict[str, Any])
        except msgspec.DecodeError:
            raise answers.unreadable(response.status_code) from None

    async def _record(self, method: str, job_id: str, tries: Tries | None = None) -> Record:
        response = await self._http.insist(
            method,
            f"/v1/jobs/{job_id}",
            for_s=_FOR_S,
            timeout_s=REQUEST_TIMEOUT_S,
            job_id=job_id,
            tries=tries,
        )
        try:
            return decode_record(response.content)
        except msgspec.DecodeError:
            raise answers.unreadable(response.status_code) from None
