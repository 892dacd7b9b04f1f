"""How an API key stands to its quotas, as header fields and as a refusal."""

import pytest

from inferq.apikeys import Caller
from inferq.errors import QuotaExceeded
from ingress.quota_script import ADMIT, HELD_MS
from ingress.standing import NO_QUOTA, settle, standing


@pytest.mark.parametrize(
    ("caller", "verdict", "policy", "limit"),
    [
        (Caller(name="a", rate_per_s=100), [1, 50, 500, 0, 0], '"rate";q=100;w=1', '"rate";r=50;t=1'),
        (Caller(name="a", rate_per_s=100), [1, 100, 0, 0, 0], '"rate";q=100;w=1', '"rate";r=100;t=0'),
        (Caller(name="a", jobs=1000), [1, 0, 0, 0, 37], '"jobs";q=1000', '"jobs";r=37'),
        (
            Caller(name="a", rate_per_s=2, jobs=9),
            [1, 1, 500, 0, 8],
            '"rate";q=2;w=1, "jobs";q=9',
            '"rate";r=1;t=1, "jobs";r=8',
        ),
    ],
)
def test_a_standing_is_two_structured_fields(
    caller: Caller, verdict: list[int], policy: str, limit: str
) -> None:
    """One item for each quota that the caller has, by the same name in both fields."""
    expected = {"RateLimit-Policy": policy, "RateLimit": limit}
    assert standing(caller, verdict).headers == expected
    assert settle(caller, 1, verdict).headers == expected


def test_without_a_quota_nothing_is_said() -> None:
    """No header field."""
    assert NO_QUOTA.headers == {}


@pytest.mark.parametrize(
    ("jobs", "verdict", "detail", "retry_after"),
    [
        (1, [0, 0, 1000, 1, 5], "this key may submit 10 jobs a second", "1"),
        (10, [0, 0, 1000, 1000, 5], "this key may submit 10 jobs a second", "1"),
        (10, [0, 0, 1000, 1001, 5], "this key may submit 10 jobs a second", "2"),
        (
            11,
            [0, 9, 100, 200, 5],
            "this key may submit 10 jobs a second: 11 at once can never pass, send fewer",
            "60",
        ),
        (5, [-1, 10, 0, 0, 4], "this key may have 5 unfinished jobs", "1"),
        (
            6,
            [-1, 10, 0, 0, 5],
            "this key may have 5 unfinished jobs: 6 at once can never pass, send fewer",
            "60",
        ),
    ],
)
def test_a_refusal_says_why_and_until_when(
    jobs: int, verdict: list[int], detail: str, retry_after: str
) -> None:
    """With whole seconds, one at least, and the fields that an accepted submit has; what never passes says so."""
    caller = Caller(name="a", rate_per_s=10, jobs=5)
    with pytest.raises(QuotaExceeded) as caught:
        settle(caller, jobs, verdict)
    assert caught.value.detail == detail
    assert caught.value.headers == {**standing(caller, verdict).headers, "Retry-After": retry_after}


def test_a_place_outlives_the_submit_that_holds_it() -> None:
    """A submit is answered within two seconds; the script reads the clock once, and that of Redis."""
    assert HELD_MS >= 2000
    assert ADMIT.text.count("'TIME'") == 1
