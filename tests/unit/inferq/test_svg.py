"""Pictures: scales put values where they belong, and what is written is well-formed."""

from xml.etree import ElementTree

import pytest

from inferq import svg


def test_equal_ratios_are_equally_far_on_a_logarithmic_scale() -> None:
    """1 to 10 is as far as 10 to 100, and both ends have room."""
    scale = svg.Logarithmic([1.0, 100.0], 0.0, 100.0)
    first, second, third = (scale.at(value) for value in (1.0, 10.0, 100.0))
    assert second - first == pytest.approx(third - second)
    assert first > 0
    assert third < 100
    assert scale.ticks() == pytest.approx([1, 2, 5, 10, 20, 50, 100])


def test_a_wide_logarithmic_scale_marks_decades_alone() -> None:
    """Five decades would be crowded by 2 and 5."""
    assert svg.Logarithmic([1.0, 1e5], 0.0, 100.0).ticks() == pytest.approx([1, 10, 100, 1e3, 1e4, 1e5])


@pytest.mark.parametrize(
    ("values", "least", "ticks"),
    [
        ([3.0, 58.0], 0.0, [0, 10, 20, 30, 40, 50, 60]),
        ([1.0], 100.0, [0, 20, 40, 60, 80, 100]),
        ([], 0.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([0.0], 0.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([9.9], 0.0, [0, 2, 4, 6, 8, 10]),
    ],
)
def test_a_linear_scale_begins_at_zero(values: list[float], least: float, ticks: list[float]) -> None:
    """About five round values, and no smaller end than was asked for."""
    scale = svg.Linear(values, 300.0, 0.0, least=least)
    assert scale.at(0) == 300
    assert scale.ticks() == pytest.approx(ticks)
    assert scale.at(scale.ticks()[-1]) >= 0


def test_each_further_nine_takes_the_same_room() -> None:
    """0, 90, 99 and 99.9 % are equally far, and what is beyond the end stays at it."""
    scale = svg.Percentiles(0.999, 0.0, 300.0)
    assert [scale.at(share) for share in (0.0, 0.9, 0.99, 0.999)] == pytest.approx([0, 100, 200, 300])
    assert scale.at(0.99999) == scale.at(1.0) == 300
    assert [scale.label(share) for share in scale.ticks()] == ["0%", "50%", "90%", "99%", "99.9%"]


@pytest.mark.parametrize(
    ("value", "words"), [(0.05, "0.05"), (2.5, "2.5"), (20.0, "20"), (12000.0, "12,000")]
)
def test_an_axis_shows_no_more_places_than_a_value_has(value: float, words: str) -> None:
    """Whole numbers have none, thousands are separated."""
    assert svg.Linear([value], 0, 1).label(value) == words
    assert svg.Logarithmic([value], 0, 1).label(value) == words


def test_a_picture_is_well_formed_whatever_its_words_are() -> None:
    """Signs that XML reserves are escaped, in texts and in what is shown when pointed at."""
    parts = [
        *svg.opened(100, 50, "a < b & c"),
        svg.text(1, 2, "<p99> & more", fill="#3f86d8"),
        svg.sideways(1, 2, "ms & more"),
        svg.line(0, 0, 1, 1, opacity=0.5, dashed=True),
        svg.path([(0, 0), (1, 1)], "#3f86d8", dashed=True),
        svg.dot(1, 1, "#3f86d8", "a < b"),
        svg.bar(0, 0, 1, 1, "#3f86d8", "a < b"),
        svg.bar(0, 0, 1, 1, "#3f86d8"),
        svg.CLOSED,
    ]
    root = ElementTree.fromstring("".join(parts))
    assert "".join(root.itertext()).count("a < b") == 3
