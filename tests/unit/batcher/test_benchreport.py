"""What a bench reports: fit, lines and picture."""

import re
from xml.etree import ElementTree

import pytest

from batcher.benchpicture import picture
from batcher.benchreport import Report, duration, fitted, formula, lines
from batcher.cost import Cost, Sample

COST = Cost(tau0_ms=2.0, row_ms=0.0, token_ms=0.25, token_length_ms=0.0005)


def samples(cost: Cost = COST, *, rows: tuple[int, ...] = (1, 4, 16)) -> list[Sample]:
    """Measurements that follow a cost exactly, and one that says nothing."""
    exact = [Sample(rows=r, length=n, ms=cost.batch_ms(r, n)) for r in rows for n in (8, 64)]
    return [*exact, Sample(rows=1, length=8, ms=0.0)]


def report(**changes: object) -> Report:
    """A report of a model with a lane and a wide session."""
    values: dict[str, object] = {
        "model": "a<b",
        "folder": "/models/a<b",
        "digest": "00",
        "device": "cpu",
        "fallback_reason": "no CUDA",
        "precision": "int8",
        "file": "model.int8.onnx",
        "note": "a note",
        "threads": 2,
        "layout": "2 x 1, wide 2",
        "lanes": 2,
        "load_ms": 1234.0,
        "texts_per_s": {"1 x 2": 50.0, "2 x 1": 66.5},
        "lane": fitted(samples()),
        "wide": fitted(samples()),
    }
    return Report(**(values | changes))  # type: ignore[arg-type]  # the values of a table of fields


def test_a_fit_carries_its_grid_with_predictions() -> None:
    """By length, then texts; useless measurements are left out, and an exact grid has no error."""
    found = fitted(samples())
    assert [(point.length, point.rows) for point in found.grid] == [
        (length, rows) for length in (8, 64) for rows in (1, 4, 16)
    ]
    assert found.mean_error < 0.01
    assert found.cost.batch_ms(4, 64) == pytest.approx(COST.batch_ms(4, 64), rel=0.01)
    assert max(abs(point.error) for point in found.grid) < 0.01


def test_a_fit_reads_as_a_sum_of_its_terms() -> None:
    """Terms that are 0 are left out, and each has a unit that suits its size."""
    cost = Cost(tau0_ms=2.0, row_ms=0.0, token_ms=0.25, token_length_ms=0.0)
    assert formula(fitted(samples(cost))) == "2 ms a batch + 0.25 ms a token"
    assert formula(fitted(samples())).endswith(" a token pair")
    assert [duration(ms) for ms in (12.3456, 0.0123456, 0.0000123456)] == ["12.3 ms", "12.3 µs", "12.3 ns"]


def test_lines_show_layouts_fits_and_grids() -> None:
    """The best layout is first; each shape has its measured and predicted time."""
    shown = "\n".join(lines(report()))
    assert "cpu (no CUDA), 2 threads" in shown
    assert "int8 from model.int8.onnx" in shown
    assert "note        a note" in shown
    assert shown.index("66.5 texts/s") < shown.index("50.0 texts/s")
    assert shown.count("mean error") == 2
    assert re.search(r"^ +16 +64 +2\d\d\.\d+ +2\d\d\.\d+ +[+-]0\.\d%$", shown, re.MULTILINE)
    bare = "\n".join(
        lines(report(folder=None, fallback_reason=None, file=None, note=None, wide=None, threads=1))
    )
    assert "model       a<b\n" in bare
    assert "cpu, 1 thread\n" in bare
    assert bare.count("mean error") == 1


def test_the_picture_is_svg_with_a_point_for_each_shape() -> None:
    """Title, axes with units, a curve for each length, and a point with its figures for each shape."""
    root = ElementTree.fromstring(picture(report()))
    kinds = [element.tag.rpartition("}")[2] for element in root.iter()]
    # Each panel: six shapes and two lengths in the legend
    assert kinds.count("circle") == 2 * (6 + 2)
    assert kinds.count("polyline") == 2 * 2
    texts = [element.text or "" for element in root.iter() if element.text]
    assert "a<b: int8 on cpu, layout 2 x 1, wide 2" in texts
    assert "time of the batch, ms" in texts
    assert any("all lanes busy" in text for text in texts)
    alone = picture(report(wide=None, lanes=1))
    assert alone.count("<polyline") == 2
    assert "one at a time" in alone


def test_points_lie_inside_the_picture() -> None:
    """Also where all times are the same, and where they span many decades."""
    flat = fitted([Sample(rows=1, length=8, ms=5.0)])
    steep = fitted([Sample(rows=r, length=8, ms=ms) for r, ms in ((1, 0.01), (1000, 100_000.0))])
    for found in (flat, steep):
        root = ElementTree.fromstring(picture(report(lane=found, wide=None, lanes=1)))
        for element in root.iter("{http://www.w3.org/2000/svg}circle"):
            assert 0 < float(element.attrib["cx"]) < float(root.attrib["width"])
            assert 0 < float(element.attrib["cy"]) < float(root.attrib["height"])
