"""The close codes."""

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


def test_a_code_that_a_client_makes_up_is_not_counted_by_itself() -> None:
    """There are 2,000 of them, and each would be a series of its own for ever."""
    assert {closes.label(code) for code in range(3000, 5000)} == {
        "other", "4008", "4400", "4401", "4403", "4404", "4429",
    }  # fmt: skip  # codes side by side
    assert [closes.label(code) for code in (1000, 1005, 1006, 1012)] == ["1000", "1005", "1006", "1012"]
