"""How a configuration of batching is written on one line, as benchmarks take it. Pure.

16:50      batches of up to 16, with a window of up to 50 ms: policy `fixed`, or `greedy` where the window is 0
1:0        one job at a time
slo        policy `slo`, which steers for the settings' own latency
slo:200    the same, for 200 ms
slo:200:32 the same, with batches of up to 32
"""

import re
from typing import Final

from inferq.errors import OperatorError

ALLOWED: Final = "SIZE:WAIT_MS as 16:50, slo, slo:BUDGET_MS as slo:200, or slo:BUDGET_MS:SIZE"
_FIXED: Final = re.compile(r"(\d{1,6}):(\d{1,6})")
_SLO: Final = re.compile(r"slo(?::(\d{1,6}))?(?::(\d{1,6}))?")


def configured(text: str) -> dict[str, str]:
    """Return the settings, by field, that a configuration stands for; raises `OperatorError` for anything else."""
    if fixed := _FIXED.fullmatch(text):
        size, wait_ms = fixed.groups()
        if int(wait_ms) == 0:
            return {"batch_policy": "greedy", "max_batch_size": size}
        return {"batch_policy": "fixed", "max_batch_size": size, "max_wait_ms": wait_ms}
    if slo := _SLO.fullmatch(text):
        budget_ms, size = slo.groups()
        found = {"batch_policy": "slo"}
        if budget_ms is not None:
            found["slo_ms"] = budget_ms
        if size is not None:
            found["max_batch_size"] = size
        return found
    raise OperatorError(f"a configuration is {ALLOWED}")
