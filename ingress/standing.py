"""How an API key stands to its quotas, as header fields and as a refusal. Pure.

The fields are those of draft-ietf-httpapi-ratelimit-headers-10, as structured fields (RFC 9651): `RateLimit-Policy`
says what is allowed (`q` jobs in `w` seconds), `RateLimit` how many still are (`r`), and in how many seconds all are
again (`t`). Two policies: "rate" is submits, "jobs" unfinished jobs, which no time alone gives back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from inferq.apikeys import Caller
from inferq.errors import QuotaExceeded
from inferq.plurals import counted

# Nobody knows when an unfinished job ends.
JOBS_RETRY_S: Final = 1
# For what no waiting helps: a client that repeats without looking does little harm.
NEVER_RETRY_S: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What answers say of a caller's quotas: header fields by name, none where there is no quota."""

    headers: dict[str, str] = field(default_factory=dict)


NO_QUOTA: Final = Standing()


def standing(caller: Caller, verdict: Sequence[int]) -> Standing:
    """Return how a caller stands after a verdict of the script, which lists what that comes to."""
    _, fits, empty_ms, _, free = verdict
    policies, limits = [], []
    if caller.rate_per_s:
        policies.append(f'"rate";q={caller.rate_per_s};w=1')
        limits.append(f'"rate";r={fits};t={math.ceil(empty_ms / 1000)}')
    if caller.jobs:
        policies.append(f'"jobs";q={caller.jobs}')
        limits.append(f'"jobs";r={free}')
    return Standing(headers={"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(limits)})


def settle(caller: Caller, jobs: int, verdict: Sequence[int]) -> Standing:
    """Return how a caller stands now that its jobs were let in.

    Raises:
        QuotaExceeded: they were not; with the same header fields.
    """
    now = standing(caller, verdict)
    outcome, _, _, wait_ms, _ = verdict
    if outcome == 1:
        return now
    if outcome == 0:
        limit, what = caller.rate_per_s, f"this key may submit {counted(caller.rate_per_s, 'job')} a second"
        retry_after_s = max(1, math.ceil(wait_ms / 1000))
    else:
        limit, what = caller.jobs, f"this key may have {counted(caller.jobs, 'unfinished job')}"
        retry_after_s = JOBS_RETRY_S
    if jobs > limit:
        what += f": {jobs} at once can never pass, send fewer"
        retry_after_s = NEVER_RETRY_S
    raise QuotaExceeded(what, retry_after_s=retry_after_s, headers=now.headers)
