"""A sweep in words and tables."""

import msgspec
import pytest

from loadgen.sweeping.paper import about, document, picture
from loadgen.sweeping.row import Beside
from loadgen.sweeping.swept import Server
from loadgen.sweeping.words import conclusions, ideals, line, table
from tests.sweeps import BROKEN, row, swept

BESIDE = Beside(
    mean=1.2, p50=1.1, p99=1.5, throughput=0.99,
    ideal_mean_ms=18, ideal_p50_ms=18, ideal_p99_ms=27, ideal_throughput=101,
)  # fmt: skip
CURVE = (
    row(10, beside=BESIDE, least_ms=15, most_ms=17),
    row(100, p99_ms=900),
    row(120, achieved=108, p99_ms=1500),
)


def test_the_table_has_a_level_a_row() -> None:
    """Ascending, with what an operator reads first in front."""
    found = table(swept(*CURVE))
    assert found.head[0] == "offered/s"
    assert [cells[:2] for cells in found.rows] == [("10.0", "10.0"), ("100.0", "100.0"), ("120.0", "108.0")]
    assert found.rows[2][4] == "1500"
    assert all(len(cells) == len(found.head) for cells in found.rows)


def test_the_table_of_a_closed_loop_is_by_requests_in_flight() -> None:
    """And what is not known is a dash."""
    found = table(swept(row(4, lag_p99_ms=None, law=None, goodput=None), loop="closed"))
    assert (found.head[0], found.rows[0][0]) == ("in flight", "4")
    assert found.rows[0][9:12] == ("-", "-", "-")


def test_a_level_that_is_not_to_be_trusted_says_so() -> None:
    """In its row and in its line."""
    bad = row(10, law=BROKEN, invalid=("sends were late",), errors=3, cached=2, note="no ideal")
    assert table(swept(bad)).rows[0][-2:] == (
        "BROKEN",
        "invalid: sends were late; 3 errors; 2 answered from a cache; no ideal",
    )
    said = line(bad)
    assert "Little's law is broken: 20 in the system, 10 expected" in said
    assert "10.0/s offered: 10.0/s done" in said
    assert "4 in flight" in line(row(4), open_loop=False)


def test_measured_over_ideal_and_the_closed_form_have_a_table() -> None:
    """Where at least one level has either."""
    found = ideals(swept(*CURVE))
    assert found is not None
    assert found.rows == [("10.0", "1.20", "1.10", "1.50", "0.99", "27.0", "22.0", "15.0 to 17.0")]
    assert ideals(swept(row(10))) is None


def test_the_closed_form_alone_has_a_row_too() -> None:
    """With dashes for the ideal."""
    found = ideals(swept(row(10, least_ms=15, most_ms=17)))
    assert found is not None
    assert found.rows[0][1:6] == ("-",) * 5


def test_the_knee_is_said_with_its_rule() -> None:
    """And saturation, and that Little's law holds."""
    said = " ".join(conclusions(swept(*CURVE)))
    assert "The knee is at 104" in said
    assert "by this rule: the highest offered rate" in said
    assert "At saturation 108.0 jobs/s are done" in said
    assert "holds on each of the 3 levels" in said


def test_what_went_wrong_is_said() -> None:
    """A broken law, invalid levels, an interruption, what stands beside no level, and why there is no knee."""
    sweep = swept(
        row(10, law=BROKEN, invalid=("late",)),
        planned=3,
        no_ideal="it is unknown",
        no_closed_form="it is slo",
    )
    said = " ".join(conclusions(sweep))
    assert "Interrupted: 1 of 3 levels" in said
    assert "No knee was found: every level kept up" in said
    assert "BROKEN on 1 of 1 levels" in said
    assert (
        "at level 10 20 jobs were in the system and 10 expected, 0.4 apart is allowed (0.2 for the ends)"
        in said
    )
    assert "1 of 1 levels are invalid" in said
    assert "No ideal stands beside the levels: it is unknown." in said
    assert "No closed form stands beside the levels: it is slo." in said


def test_a_closed_loop_is_labelled() -> None:
    """With what its latency leaves out."""
    said = " ".join(
        conclusions(swept(row(1, achieved=20, law=None), row(8, achieved=100, law=None), loop="closed"))
    )
    assert "A closed loop" in said
    assert "could not be checked" in said
    assert "requests in flight" in said


def test_the_report_holds_all_of_it() -> None:
    """Words, both tables, the picture with the knee, and the levels as data."""
    sweep = swept(*CURVE, capacity=110.0)
    paper = document(sweep, command="python -m loadgen sweep", environment={"CPU": "2 cores"})
    assert [section.title for section in paper.sections] == [
        "What it shows",
        "Level by level",
        "Beside the ideal",
    ]
    assert "about 110 jobs/s" in paper.asked[0]
    assert "simulated:20,1, 16:0, on streams" in paper.title
    assert [one.name for one in paper.pictures()] == ["curve"]
    assert msgspec.json.encode(paper.data)
    assert paper.data["found"]["knee"] == pytest.approx(104)


def test_the_report_of_a_closed_loop_says_that_it_is_one() -> None:
    """And has no part on ideals."""
    paper = document(
        swept(row(1, achieved=20), row(8, achieved=100), loop="closed"), command="x", environment={}
    )
    assert "CLOSED" in paper.asked[0]
    assert [section.title for section in paper.sections] == ["What it shows", "Level by level"]


def test_the_knee_is_drawn() -> None:
    """With its rate, in jobs/s or in requests in flight."""
    assert "knee: 104" in picture(swept(*CURVE)).svg
    assert "knee: 5 in flight" in picture(swept(row(1, achieved=20), row(8, achieved=100), loop="closed")).svg


def test_a_knee_that_lies_on_no_curve_is_not_drawn() -> None:
    """As of levels without latency; nor is one that was not found."""
    flat = swept(row(1, achieved=20, p99_ms=None), row(8, achieved=100, p99_ms=None), loop="closed")
    assert "knee" not in picture(flat).svg
    assert "knee" not in picture(swept(row(10))).svg


def test_the_knee_is_drawn_where_levels_by_chance_offered_the_same() -> None:
    """Even at the very rate that they offered."""
    same = [row(10, achieved=9.8), row(11, offered=10, achieved=9.9)]
    assert "knee: 10/s" in picture(swept(*same, row(20, achieved=10))).svg


def test_what_was_loaded_is_named() -> None:
    """A pipeline that ran already by where it is."""
    assert about(Server(url="http://127.0.0.1:8080")) == "the pipeline at http://127.0.0.1:8080"
    several = Server(model="m", precision="int8", config="slo", broker="streams", batchers=2)
    assert about(several) == "m (int8), slo, on streams, 2 batchers"
