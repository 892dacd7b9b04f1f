"""From logits to a job's result."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.scores import PLACES, scores


def test_the_best_label_and_all_scores() -> None:
    """Softmax, rounded to six places."""
    found = scores([-2.0, 2.0], ["NEGATIVE", "POSITIVE"])
    assert found == {
        "label": "POSITIVE",
        "score": 0.982014,
        "scores": {"NEGATIVE": 0.017986, "POSITIVE": 0.982014},
    }


def test_of_equal_logits_the_first_label_wins() -> None:
    """One input has one answer."""
    assert scores([1.0, 1.0], ["a", "b"])["label"] == "a"


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=20))
def test_scores_are_a_distribution(logits: list[float]) -> None:
    """Whatever the logits, scores lie in 0..1, sum to 1 within their rounding, and the best one is the label's."""
    found = scores(logits, [str(index) for index in range(len(logits))])
    assert all(0 <= value <= 1 for value in found["scores"].values())
    assert math.isclose(sum(found["scores"].values()), 1, abs_tol=len(logits) * 10**-PLACES)
    assert found["score"] == max(found["scores"].values()) == found["scores"][found["label"]]


@pytest.mark.parametrize(
    ("logits", "labels"),
    [([], []), ([1.0], ["a", "b"]), ([math.nan, 1.0], ["a", "b"]), ([math.inf, 1.0], ["a", "b"])],
)
def test_what_is_no_answer_is_refused(logits: list[float], labels: list[str]) -> None:
    """Logits that are not finite or do not fit the labels are an error, not a result."""
    with pytest.raises(ValueError, match="the model gave"):
        scores(logits, labels)
