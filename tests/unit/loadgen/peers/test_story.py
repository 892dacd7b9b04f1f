"""The words of the report."""

from xml.etree import ElementTree

from loadgen.peers.roster import PEERS
from loadgen.peers.rounds import Arm, our_name
from loadgen.peers.story import sections, shown, table
from loadgen.reports.document import Picture, Table
from tests.unit.loadgen.peers.outcomes import arm, level, outcome

OURS = our_name("streams")


def test_where_a_peer_is_better_that_is_said() -> None:
    """At a level and at saturation, by name; where ours is better nothing of the kind stands there."""
    said = "\n".join(
        shown(outcome({OURS: arm(12, 10, per_s=90), "mosec": arm(10, 20, per_s=100)}))
    ).splitlines()
    at = {line.split(":")[0]: line for line in said}
    assert "mosec is better than ours (streams)." in at["- At 30%"]
    assert "p99 in ms from the best on: mosec 10.0, ours (streams) 12.0." in at["- At 30%"]
    assert "is better than" not in at["- At 60%"]
    assert "mosec does more than ours (streams)." in at["- At saturation"]
    other = shown(outcome({OURS: arm(12, per_s=110), "mosec": arm(13, per_s=100)}))
    assert not any("is better than" in line or "does more than" in line for line in other)


def test_who_does_not_keep_up_is_named() -> None:
    """Ours as well as peers, and the case that none does."""
    at = {
        line.split(":")[0]: line
        for line in shown(outcome({OURS: arm(9_000, per_s=1), "ray": arm(10, per_s=2)}))
    }
    assert "Not keeping up: ours (streams)." in at["- At 30%"]
    assert "Ray Serve is better than ours (streams)." in at["- At 30%"]
    assert at["- At 60%"] == "- At 60%: no arm keeps up."


def test_a_peer_that_failed_is_named_with_the_reason() -> None:
    """It is never silently left out."""
    said = shown(outcome({OURS: arm(10, per_s=1)}, failed={"bentoml": "not installed"}))
    assert "- BentoML could not be measured: not installed" in said


def test_bare_loops_are_told_with_their_spread() -> None:
    """The least and the most of several rounds: on an idle machine they are close."""
    one = {OURS: arm(10, per_s=1)}
    found = outcome(one, one)
    found.rounds[1].bare["one by one"] = 60.0
    assert "one by one 80.0 (60.0 to 100)" in shown(found)[0]
    assert "arrival order 80.0, one by one 100." in shown(outcome(one))[0]


def test_how_many_requests_a_p99_is_of_is_said_with_its_spread() -> None:
    """The fewest of any arm, and each arm's least and most; a level that nobody keeps up with is left out."""
    said = shown(outcome(*({OURS: arm(p99_ms, per_s=1), "mosec": arm(20, per_s=1)} for p99_ms in (10, 30))))
    assert (
        "- At 30% a p99 is of 200 requests; round by round it is, in ms: ours (streams) 10.0 to 30.0,"
        " mosec 20.0 to 20.0."
    ) in said
    assert not any(line.startswith("- At 60% a p99") for line in said)
    assert "- At 30% a p99 is of 100 requests." in shown(outcome({OURS: arm(10, per_s=1)}))


def test_lost_requests_and_doubtful_runs_are_said() -> None:
    """Both make figures worth less."""
    levels = [level(0.3, 10.0, answered=99, invalid=["late"])]
    said = shown(outcome({"mosec": Arm(levels=levels, saturated_per_s=1.0, refused={})}))
    assert "- mosec left 1 requests without an answer at levels that it kept up with." in said
    assert any(line.startswith("- 1 runs of mosec are doubtful") for line in said)


def test_a_table_has_a_row_an_arm_and_a_dash_where_it_does_not_keep_up() -> None:
    """With p50 and p99, throughput and CPU."""
    found = table(outcome({OURS: arm(12, 300, 4_000, per_s=1_234)}))
    assert found.rows == [["ours (streams)", "6.00 / 12.0", "150 / 300", "-", "-", "1,234", "4.00"]]


def test_a_report_says_how_each_peer_is_set_up_and_what_it_does_not_promise() -> None:
    """All peers, also those that were not measured; versions where they are known."""
    found = sections([outcome({OURS: arm(10, per_s=1)})], {"mosec": {"mosec": "0.9.8"}})
    assert [section.title for section in found] == [
        "The builtin model",
        "The builtin model: what it shows",
        "How each is set up",
        "What a peer does not promise",
    ]
    setups = found[2].parts[0]
    assert isinstance(setups, Table)
    told = {row[0]: row[1] for row in setups.rows}
    assert told["mosec"] == "mosec 0.9.8"
    assert told["Ray Serve"] == "ray not installed"
    promises = str(found[3].parts[0])
    assert all(f"- {peer.title}: {peer.lacks}." in promises for peer in PEERS.values())
    picture = next(part for part in found[0].parts if isinstance(part, Picture))
    ElementTree.fromstring(picture.svg)
