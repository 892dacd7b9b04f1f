"""Charts: what is given is drawn, in its panel, in one colour a name; what cannot be shown is left out."""

import itertools
import math
from xml.etree import ElementTree

import pytest

from loadgen.reports.charts import COLOURS, Axis, Mark, Panel, Series, chart

SVG = "{http://www.w3.org/2000/svg}"
X, Y = Axis(label="offered, jobs/s"), Axis(label="p99, ms", scale="log")


def drawn(*panels: Panel, **options: int) -> ElementTree.Element:
    """Return a chart as a tree."""
    return ElementTree.fromstring(chart("a title", "about it", panels, **options))


def words(root: ElementTree.Element) -> list[str]:
    """Return all texts."""
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_a_name_has_one_colour_in_all_panels_and_stands_once_in_the_legend() -> None:
    """Two panels with the same two configurations."""
    one, two = Series(name="1:0", points=[(1, 2), (2, 3)]), Series(name="16:0", points=[(1, 1), (2, 2)])
    panels = [Panel(title=title, x=X, y=Y, series=[one, two]) for title in ("60 jobs/s", "150 jobs/s")]
    root = drawn(*panels)
    strokes = [line.get("stroke") for line in root.iter(f"{SVG}polyline")]
    assert strokes == [COLOURS[0], COLOURS[1]] * 2
    assert words(root).count("1:0") == 1
    assert {"a title", "about it", "60 jobs/s", "150 jobs/s", "offered, jobs/s", "p99, ms"} <= set(
        words(root)
    )


def test_what_an_axis_cannot_show_is_left_out() -> None:
    """Nothing, and 0 on a logarithmic axis, have no place; nothing at all is an empty panel."""
    points = [(1.0, 0.0), (2.0, math.nan), (3.0, 5.0), (math.inf, 5.0)]
    root = drawn(Panel(title="t", x=X, y=Y, series=[Series(name="a", points=points, kind="line and dots")]))
    assert len(root.findall(f"{SVG}g//{SVG}circle")) == 1
    empty = drawn(Panel(title="t", x=X, y=Y, series=[Series(name="a", points=[])]))
    assert not empty.findall(f"{SVG}g//{SVG}circle")


def test_bars_of_several_series_stand_side_by_side_on_the_axis() -> None:
    """None covers another, and a bar of the double value is twice as high."""
    axis = Axis(label="share, %")
    series = [Series(name=name, points=[(1, 10), (2, 20)], kind="bars") for name in ("a", "b")]
    root = drawn(Panel(title="t", x=Axis(label="size"), y=axis, series=series))
    bars = [
        [float(bar.get(name, "")) for name in ("x", "width", "height")] for bar in root.iter(f"{SVG}rect")
    ]
    edges = sorted((x, x + width) for x, width, _ in bars)
    assert all(left[1] <= right[0] + 0.2 for left, right in itertools.pairwise(edges))
    assert bars[1][2] == pytest.approx(2 * bars[0][2], abs=0.2)


@pytest.mark.parametrize(("x", "anchor"), [(1.0, "start"), (9.0, "end")])
def test_a_mark_is_named_on_the_side_where_there_is_room(x: float, anchor: str) -> None:
    """A knee far to the right has its words on its left."""
    series = [Series(name="a", points=[(0, 1), (10, 100)], dashed=True)]
    root = drawn(Panel(title="t", x=X, y=Y, series=series, marks=[Mark(x=x, y=10, words="knee")]))
    (knee,) = [text for text in root.iter(f"{SVG}text") if text.text == "knee"]
    assert knee.get("text-anchor") == anchor


def test_a_long_legend_goes_on_in_a_next_row() -> None:
    """No name reaches beyond the picture's edge."""
    series = [Series(name=f"a rather long name, number {number}", points=[(1, 1)]) for number in range(8)]
    root = drawn(Panel(title="t", x=X, y=Y, series=series))
    places = [
        (float(text.get("x", "")), text.get("y")) for text in root if (text.text or "").startswith("a rather")
    ]
    assert len({y for _, y in places}) > 1
    assert all(x < 560 for x, _ in places)


def test_a_scale_of_percentiles_ends_where_the_points_do() -> None:
    """A curve to 99.9 % has its three nines marked."""
    points = [(0.0, 1.0), (0.9, 2.0), (0.999, 3.0)]
    panel = Panel(
        title="t", x=Axis(label="share", scale="percentiles"), y=Y, series=[Series(name="a", points=points)]
    )
    assert [word for word in words(drawn(panel)) if word.endswith("%")] == [
        "0%",
        "50%",
        "90%",
        "99%",
        "99.9%",
    ]
