"""The report of a benchmark holds everything: what was asked, tables, pictures, words, and all runs as JSON."""

from xml.etree import ElementTree

import msgspec

from loadgen.reports.arms import arms
from loadgen.reports.comparison import Asked, compared, table
from loadgen.reports.document import as_json, markdown
from loadgen.reports.measured import cells
from tests.reporting import report, run

ASKED = Asked(
    arms=arms(["1:0", "slo"]),
    loads={"10": 10.0, "188%": 18.8},
    seconds=10,
    warm_s=1,
    rounds=2,
    seed=0,
    schedule="constant",
    broker="streams",
    model="builtin",
    batchers=2,
    budget_ms=200,
    patience_s=70,
    capacity=10.0,
)
RUNS = [
    run(arm, report([took + number] * 100, sizes={1: 10, 4: 5}, left=left), load=load, number=number)
    for load, left in (("10", 0), ("188%", 50))
    for arm, took in (("1:0", 50.0), ("slo", 20.0))
    for number in (0, 1)
]


def test_a_report_holds_all_of_it() -> None:
    """Each load has its table, three pictures and sentences; the JSON every run."""
    document = compared(
        ASKED, RUNS, command="the command", began_at="2026-01-31T12:00:00Z", environment={"CPU": "one"}
    )
    page = markdown(document, "stem")
    assert "## At 10.0 jobs/s" in page
    assert "## At 18.8 jobs/s (188% of what is done one by one)" in page
    assert "Loads in per cent are of that" in page
    assert "2 batchers;" in page
    assert page.count("| configuration | accepted |") == 2
    assert "What it shows" not in page
    pictures = document.pictures()
    assert [picture.name for picture in pictures[3:]] == [
        "188-percent-latency",
        "188-percent-time",
        "188-percent-batches",
    ]
    for picture in pictures:
        ElementTree.fromstring(picture.svg)
        assert f"](stem-{picture.name}.svg)" in page
    values = msgspec.json.decode(as_json(document))
    assert len(values["runs"]) == len(RUNS)
    assert values["medians"]["10"]["slo"]["p50"]["least"] < values["medians"]["10"]["slo"]["p50"]["most"]
    assert values["asked"]["capacity"] == 10.0


def test_notes_stand_first_and_no_capacity_is_told_where_none_was_measured() -> None:
    """What somebody wrote is kept apart from what follows from the numbers."""
    asked = Asked(**{name: getattr(ASKED, name) for name in ASKED.__dataclass_fields__} | {"capacity": None})
    document = compared(
        asked, RUNS, command="c", began_at="2026-01-31", environment={}, notes="Batching pays.\n"
    )
    assert document.sections[0].title == "What it shows"
    assert document.sections[0].parts == ("Batching pays.",)
    assert "one by one, at saturation" not in "".join(document.asked)


def test_the_terminals_table_has_medians_alone_and_marks_what_is_invalid() -> None:
    """A configuration without a valid round says so."""
    rounds = [*RUNS[:2], run("slo", report([5.0] * 10, invalid=["sends were late"]))]
    shown = table(cells(rounds), short=True)
    assert [row[0] for row in shown.rows] == ["1:0", "slo (invalid)"]
    assert all("(" not in cell for row in shown.rows for cell in row[1:])


def test_a_report_of_fewer_runs_than_were_asked_for_says_so_first() -> None:
    """In its title, so that an index shows it, and above all else; a load that was not reached has no section."""
    document = compared(
        ASKED, RUNS[:3], command="c", began_at="2026-01-31", environment={}, ended_early="it was interrupted"
    )
    assert document.title.endswith("(not whole)")
    assert document.asked[0] == (
        "**Not whole: it was interrupted. 3 of 8 runs were made, and all here is of them alone.**"
    )
    assert [section.title for section in document.sections] == ["At 10.0 jobs/s", "How it was measured"]
    assert "Rounds that were run: 1:0 2, slo 1." in markdown(document, "stem")
    assert msgspec.json.decode(as_json(document))["ended_early"] == "it was interrupted"


def test_both_panels_over_time_have_one_scale() -> None:
    """The last jobs end after the load does, and both panels show as much time."""
    document = compared(ASKED, RUNS, command="c", began_at="2026-01-31", environment={})
    picture = next(one for one in document.pictures() if one.name == "10-time")
    groups = ElementTree.fromstring(picture.svg).findall("{*}g")
    ticks = [
        [text.get("x") for text in group.findall("{*}text") if text.text in ("0", "2", "4", "6", "8", "10")]
        for group in groups
    ]
    across = [{x for x in found if float(x or 0) > 62} for found in ticks]
    assert across[0] == across[1]
    assert len(across[0]) == 6
