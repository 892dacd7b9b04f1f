"""An ingress that died in the middle of a submit with an idempotency key, as what it leaves behind."""

import json
import os
from typing import Any

from inferq.jobs import Job
from inferq.messages import encode_job
from inferq.steps import Origin
from inferq.store import wall_ms
from ingress.idemkey import digest, fingerprint
from ingress.infer import INFER_PATH
from ingress.submits import Seed
from tests.answers import GOOD
from tests.deployment import Deployment


def encoded(body: Any) -> bytes:
    """Return a body as every repeat sends it."""
    return json.dumps(body).encode()


class Dead:
    """An ingress that died in the middle of a submit: its claim is there, and what it had done by then."""

    def __init__(
        self, deployment: Deployment, body: Any = GOOD, *, path: str = INFER_PATH, owner: str = ""
    ) -> None:
        self.seed = os.urandom(16).hex()
        self._deployment, self._body, self._path, self._owner = deployment, body, path, owner

    async def claims(self) -> None:
        """Leave the claim, older than any work takes."""
        key = self._deployment.names.idem(digest(scope=self._owner, path=self._path, key=b"key"))
        fields: dict[Any, Any] = {
            "fingerprint": fingerprint(encoded(self._body)),
            "seed": self.seed,
            "token": "t",
            "at_ms": 0,
        }
        await self._deployment.redis.hset(key, mapping=fields)

    def job_id(self, index: int) -> str:
        """Id of a batch's job."""
        return Seed(text=self.seed).job_id(index)

    def submit(self, job_id: str = "", *, text: str = "good", counted: bool = False) -> Origin:
        """The submit of one job, as it makes it."""
        job = Job(
            job_id=job_id or self.seed,
            model="builtin",
            text=text,
            created_ms=int(wall_ms()),
            owner=self._owner,
            counted=counted,
        )
        queue = self._deployment.names.queue("builtin")
        return Origin(job=job, queue=queue, message=encode_job(job), submit="dead")
