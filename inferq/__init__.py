"""Asynchronous ML inference with dynamic batching and push: what all processes share, and the client.

The client's names are imported when they are first asked for: the services, which import this package too, have no
use for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferq.sdk.asyncclient import AsyncClient
    from inferq.sdk.client import Client
    from inferq.sdk.errors import (
        AlreadyFinal,
        BadRequest,
        Busy,
        CallerRefused,
        ClientClosed,
        ClientError,
        Forbidden,
        JobCancelled,
        JobError,
        JobExpired,
        JobFailed,
        JobNotFound,
        KeyRefused,
        KeyReused,
        ModelNotFound,
        NotFound,
        QuotaExceeded,
        RequestRefused,
        ServerFault,
        ServiceRefused,
        Unreachable,
        WaitTimeout,
    )
    from inferq.sdk.records import Record
    from inferq.sdk.shapes import Embedding, Job, Refusal, Result
    from inferq.sdk.tensors import Outputs

_HOMES = {"AsyncClient": "inferq.sdk.asyncclient", "Client": "inferq.sdk.client"}
_HOMES |= {
    "Record": "inferq.sdk.records",
    "Outputs": "inferq.sdk.tensors",
    **dict.fromkeys(("Embedding", "Job", "Refusal", "Result"), "inferq.sdk.shapes"),
}

__all__ = [
    "AlreadyFinal",
    "AsyncClient",
    "BadRequest",
    "Busy",
    "CallerRefused",
    "Client",
    "ClientClosed",
    "ClientError",
    "Embedding",
    "Forbidden",
    "Job",
    "JobCancelled",
    "JobError",
    "JobExpired",
    "JobFailed",
    "JobNotFound",
    "KeyRefused",
    "KeyReused",
    "ModelNotFound",
    "NotFound",
    "Outputs",
    "QuotaExceeded",
    "Record",
    "Refusal",
    "RequestRefused",
    "Result",
    "ServerFault",
    "ServiceRefused",
    "Unreachable",
    "WaitTimeout",
]


# A type checker that knew of this would take any name for one of ours.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES.get(name, "inferq.sdk.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
