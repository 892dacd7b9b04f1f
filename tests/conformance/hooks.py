"""What schemathesis takes for a fault of the ingress, and is none."""

import json
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure, ServerError
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.hooks import HookContext
from schemathesis.openapi.checks import RejectedPositiveData

# What depends on which model is meant.
_OF_A_MODEL = {"/infer": ("/input_data", "/model"), "/v1/embeddings": ("/model",)}


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Keep what is a fault.

    None is a batch that is accepted although an input of it is not valid, as long as that input is refused. Nor is
    a whole number that is written with a fraction (`5.0`): JSON Schema cannot tell it from one without. Nor is a
    webhook that is a URL and yet refused: which hosts are taken no schema can say. Nor a call that the model does not
    take, which no schema can say either, or that is not answered in the time that it asks for.
    """
    path = case.operation.path
    if isinstance(failure, ServerError | RejectedPositiveData):
        if response.status_code == 504:
            return "timeout" not in json.dumps(case.body, default=str)
        if response.status_code == 503 and path.startswith("/v2/models/") and path.endswith("/ready"):
            return False  # No batcher runs here.
    if isinstance(failure, AcceptedNegativeData) and path == "/v1/infer/batch":
        return not response.json()["refused"]
    if isinstance(failure, RejectedPositiveData) and response.status_code == 400:
        if path.startswith("/v2/"):
            return False
        faults = response.json()["errors"]
        fractional = isinstance(case.body, dict | list) and _has_fraction(case.body)
        excused = ("/deadline_ms", "/shape", "/timeout_ms", "/webhook") if fractional else ("/webhook",)
        excused = (*excused, *_OF_A_MODEL.get(path, ()))
        return not all(fault["pointer"].endswith(excused) for fault in faults)
    return True


def _has_fraction(value: Any) -> bool:
    return ".0" in json.dumps(value)
