"""The close codes."""

import pytest

from notifier import closes


def test_the_codes_are_the_contracts() -> None:
    """Clients tell by them what to do next."""
    assert (closes.DONE, closes.RESTART, closes.TOO_SLOW, closes.BAD_MESSAGE) == (1000, 1012, 4008, 4400)
    assert (closes.NO_KEY, closes.WRONG_ORIGIN, closes.UNKNOWN_JOB, closes.TOO_MANY) == (
        4401,
        4403,
        4404,
        4429,
    )
    assert (closes.UNANSWERED, closes.FAILED, closes.LOST) == (1011, 1011, 1006)


@pytest.mark.parametrize(
    ("code", "label"),
    [(1000, "1000"), (1005, "1005"), (1009, "1009"), (4008, "4008"), (3000, "other"), (4999, "other")],
)
def test_what_clients_make_up_is_counted_as_one(code: int, label: str) -> None:
    """Each label is a metric that stays."""
    assert closes.label(code) == label
