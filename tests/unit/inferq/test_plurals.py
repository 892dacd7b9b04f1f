"""Numbers with their nouns."""

import pytest

from inferq.plurals import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 jobs are"), (1, "1 job is"), (2, "2 jobs are"), (1000, "1,000 jobs are")]
)
def test_a_noun_goes_with_its_number(number: int, said: str) -> None:
    """One is one, and nothing else is."""
    assert counted(number, "job is", "jobs are", form=",") == said


def test_most_nouns_take_an_s() -> None:
    """Only others have to be given."""
    assert (counted(1, "row"), counted(3, "row")) == ("1 row", "3 rows")
