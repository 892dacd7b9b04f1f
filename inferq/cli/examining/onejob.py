"""One job through everything, of the default model: a text, or zeros where that takes tensors."""

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from inferq.cli.credentials import NO_KEY
from inferq.cli.deployment import Endpoint
from inferq.cli.examining.finding import Finding, of_error, ok, wrong
from inferq.cli.resultwords import in_brief
from inferq.errors import InferqError, OperatorError
from inferq.modelsroot import read_catalog
from inferq.settings import Settings
from inferq.tensors.datatypes import LAYOUTS
from inferq.tensors.signature import Signature, zeros

if TYPE_CHECKING:
    from inferq import AsyncClient

SAMPLE: Final = "everything works as it should"
JOB_S: Final = 30.0
WHOLE_S: Final = 45.0
# Lengths of the axes that a graph leaves free, one after the other until it takes one.
FREE_AXES: Final = (1, 16, 64, 256)


async def send_one(place: Endpoint, settings: Settings) -> Finding:
    """Send a job and wait for its result."""
    from inferq import ClientError, JobError
    from inferq.cli.calls import NoKey, connected

    url, begun_s = place.url, time.perf_counter()
    try:
        # Whoever answers there need not be ours, and may never come to an end.
        async with asyncio.timeout(WHOLE_S), connected(place, patience_s=5.0) as client:
            said = await _run(client, _signature(settings))
    except TimeoutError:
        detail = f"{url}: nothing came to an end within {WHOLE_S:.0f} s"
        return wrong(
            "one job", detail, "see whether it is our ingress that listens there; if it is, restart it"
        )
    except NoKey:
        return wrong("one job", f"{url} asks for an API key that it knows", NO_KEY)
    except JobError as error:
        detail = f"{url}: the job ended without a result: {error.detail}"
        return wrong("one job", detail, "see the batcher's log")
    except ClientError as error:
        cure = "mend what is wrong above; with nothing wrong there, see the logs"
        return wrong("one job", f"{url}: {error}", cure)
    except InferqError as error:
        return of_error("one job", error)
    took_ms = (time.perf_counter() - begun_s) * 1000
    return ok("one job", f"{said} after {took_ms:.0f} ms, submitted at {url}")


async def _run(client: "AsyncClient", signature: Signature | None) -> str:
    """Return what the job came to, in words; raises what the client raises."""
    from inferq import JobError
    from inferq.sdk.errors import of_record

    if signature is None:
        record = await client.wait(await client.submit(_sample()), timeout_s=JOB_S)
        if record.result is None:
            raise of_record(record)
        return in_brief(record.result)
    *shorter, last = FREE_AXES if _has_free(signature) else FREE_AXES[:1]
    for free in shorter:
        try:
            return ", ".join((await client.run_tensors(_arrays(signature, free), timeout_s=JOB_S)).arrays)
        except JobError:
            continue
    return ", ".join((await client.run_tensors(_arrays(signature, last), timeout_s=JOB_S)).arrays)


def _sample() -> str:
    # The same text again would be answered from a cache, whatever became of the models.
    return f"{SAMPLE}, {uuid.uuid4().hex[:6]}"


def _signature(settings: Settings) -> Signature | None:
    try:
        catalog = read_catalog(settings)
    except OperatorError:
        # Said of the models themselves.
        return None
    return catalog.models[catalog.default].signature


def _has_free(signature: Signature) -> bool:
    return any(axis is None for port in signature.inputs for axis in (port.shape or ())[1:])


def _arrays(signature: Signature, free: int) -> dict[str, Any]:
    import numpy as np

    return {
        one.name: np.frombuffer(one.data, dtype="<" + LAYOUTS[one.datatype].letter).reshape(one.shape)
        for one in zeros(signature, 1, free=free)
    }
