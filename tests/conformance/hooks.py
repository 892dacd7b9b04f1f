"""What schemathesis takes for a fault of the ingress, and is none."""

import json
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.hooks import HookContext
from schemathesis.openapi.checks import RejectedPositiveData


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Keep what is a fault.

    None is a batch that is accepted although an input of it is not valid, as long as that input is refused. Nor is
    a whole number that is written with a fraction (`5.0`): JSON Schema cannot tell it from one without. Nor is a
    webhook that is a URL and yet refused: which hosts are taken no schema can say.
    """
    if isinstance(failure, AcceptedNegativeData) and case.operation.path == "/v1/infer/batch":
        return not response.json()["refused"]
    if isinstance(failure, RejectedPositiveData) and response.status_code == 400:
        faults = response.json()["errors"]
        fractional = isinstance(case.body, dict | list) and _has_fraction(case.body)
        excused = ("/deadline_ms", "/shape", "/webhook") if fractional else ("/webhook",)
        return not all(fault["pointer"].endswith(excused) for fault in faults)
    return True


def _has_fraction(value: Any) -> bool:
    return ".0" in json.dumps(value)
