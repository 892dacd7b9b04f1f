"""From logits to a job's result."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.scores import PLACES, holding, scores, sigmoids, values


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


def test_each_label_by_itself() -> None:
    """A sigmoid of each logit, however far from zero."""
    found = sigmoids([0.0, 2.0, -2.0, 1e6, -1e6], ["a", "b", "c", "d", "e"])
    assert found == {"a": 0.5, "b": 0.880797, "c": 0.119203, "d": 1.0, "e": 0.0}


def test_the_labels_that_hold() -> None:
    """Those at the threshold or above, best first, and of equal ones the first; there may be none."""
    scored = {"a": 0.5, "b": 0.9, "c": 0.2, "d": 0.5}
    assert holding(scored, 0.5) == ["b", "a", "d"]
    assert holding(scored, 0.95) == []


def test_values_are_as_the_model_gave_them() -> None:
    """They are no probabilities."""
    assert values([3.25, -7.0], ["stars", "rank"]) == {"stars": 3.25, "rank": -7.0}


@pytest.mark.parametrize(("logits", "labels"), [([1.0], ["a", "b"]), ([math.nan], ["a"]), ([], [])])
def test_what_is_no_answer_is_refused_of_any_kind(logits: list[float], labels: list[str]) -> None:
    """As for a softmax."""
    for read in (sigmoids, values):
        with pytest.raises(ValueError, match="the model gave"):
            read(logits, labels)
