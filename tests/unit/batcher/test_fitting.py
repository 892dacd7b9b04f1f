"""How large a batch may be once the device had no memory for one."""

from batcher.fitting import MOST_PATIENCE, PATIENCE, Fitting


def fitted(fitting: Fitting, tokens: int, times: int) -> None:
    for _ in range(times):
        fitting.fitted(tokens)


def test_nothing_bounds_what_never_failed() -> None:
    """The settings' bound stays, however many batches fit."""
    fitting = Fitting(most_tokens=4096)
    fitted(fitting, 4096, 3 * PATIENCE)
    assert (fitting.limit, fitting.bounded, fitting.failures) == (4096, False, 0)


def test_what_failed_halves_the_bound() -> None:
    """Again with each failure, and never below one token."""
    fitting = Fitting(most_tokens=4096)
    for tokens, limit in [(4096, 2048), (2048, 1024), (1, 1), (1, 1)]:
        fitting.failed(tokens)
        assert (fitting.limit, fitting.bounded) == (limit, True)


def test_the_largest_that_fitted_is_remembered() -> None:
    """It bounds, where it is more than half of what failed; one as large that fails is no proof any more."""
    fitting = Fitting(most_tokens=4096)
    fitting.fitted(3000)
    fitting.failed(4096)
    assert fitting.limit == 3000
    fitting.failed(2000)
    assert fitting.limit == 1000


def test_a_smaller_batch_of_the_same_failure_does_not_raise_the_bound() -> None:
    """Batches that ran side by side fail one after the other."""
    fitting = Fitting(most_tokens=4096)
    fitting.failed(1000)
    fitting.failed(4096)
    assert fitting.limit == 500


def test_after_a_while_more_is_tried() -> None:
    """The bound doubles up to what is set; where that fails the while doubles, but not with the halves of one batch."""
    fitting = Fitting(most_tokens=4000)
    fitting.failed(4000)
    fitting.failed(2000)
    fitted(fitting, 10, PATIENCE - 1)
    assert fitting.limit == 1000
    fitting.fitted(10)
    assert (fitting.limit, fitting.bounded) == (2000, True)
    fitted(fitting, 10, PATIENCE)
    assert (fitting.limit, fitting.bounded) == (4000, False)
    fitting.failed(4000)
    fitted(fitting, 10, PATIENCE)
    assert fitting.limit == 2000
    fitted(fitting, 10, PATIENCE)
    assert fitting.limit == 4000


def test_what_fails_time_and_again_is_tried_rarely() -> None:
    """But never given up."""
    fitting, waits = Fitting(most_tokens=4000), list[int]()
    for _ in range(12):
        fitting.failed(4000)
        wait = 0
        while fitting.bounded:
            fitting.fitted(10)
            wait += 1
        waits.append(wait)
    assert waits == [min(MOST_PATIENCE, PATIENCE * 2**turn) for turn in range(12)]
