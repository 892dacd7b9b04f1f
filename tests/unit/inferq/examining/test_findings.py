"""Findings, and how they are shown."""

from inferq.cli.examining.finding import Grade, note, of_error, ok, wrong
from inferq.cli.examining.layout import WIDTH, lines, verdict
from inferq.errors import OperatorError, Unavailable


def test_an_operators_mistake_brings_its_cure() -> None:
    """What stands behind its last colon; another error has none of its own, and neither has one without a colon."""
    found = of_error("x", OperatorError("INFERQ_A='b: c' is not allowed: it must be d"))
    assert (found.grade, found.detail, found.cure) == (
        Grade.WRONG,
        "INFERQ_A='b: c' is not allowed",
        "it must be d",
    )
    for error in (Unavailable("Redis is away: no answer"), OperatorError("out of order")):
        found = of_error("x", error)
        assert (found.detail, found.cure) == (str(error), "see the logs of the service that it is about")


def test_lines_keep_to_the_width_and_to_their_columns() -> None:
    """The cure begins a line of its own; a word that is longer than a line stays whole."""
    url = "redis://" + "h" * 90
    finding = wrong("batcher-12", f"word {'word ' * 30}{url}", "start it\x1b[31m, " + "and so on " * 10)
    shown = lines(finding)
    assert shown[0].startswith("wrong  batcher-12 word word")
    assert all(line.startswith(" " * 18) for line in shown[1:])
    assert [line for line in shown if len(line) > WIDTH] == [" " * 18 + url]
    assert [line[18:23] for line in shown].count("cure:") == 1
    assert "\x1b" not in "".join(shown)
    assert lines(ok("clock", "")) == ["ok     clock"]


def test_the_last_line_sums_up() -> None:
    """Notes leave the whole well."""
    fine, remark, bad = ok("a", "b"), note("a", "b", "c"), wrong("a", "b", "c")
    assert verdict([fine]) == "everything is well"
    assert verdict([fine, remark]) == "everything is well, 1 note"
    assert verdict([bad, remark, bad, remark]) == "2 wrong, 2 notes"
