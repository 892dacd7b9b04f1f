"""What can be said of the scripts without a server: they and the tables they stand on name the same things."""

import hashlib
import re

import pytest

from inferq import scripts
from inferq.broker import stream_scripts
from inferq.broker.stream_scripts import ACCEPT
from inferq.jobs import JobRecord, Status
from inferq.messages import VERSION
from inferq.scripts import ANSWER, CREATE, MOVE, PUBLIC_FIELDS, REBUILD, Script, record_script
from inferq.webhooks import scripts as webhook_scripts

SCRIPTS = {
    name: value
    for module in (scripts, stream_scripts, webhook_scripts)
    for name, value in vars(module).items()
    if isinstance(value, Script)
}
every_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())


def _function(name: str, text: str) -> str:
    found = re.search(rf"^local function {name}\(.*?^end$", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


def _own(script: Script) -> str:
    """The script without what all scripts share."""
    shared = record_script("").text
    assert script.text.startswith(shared)
    return script.text.removeprefix(shared)


def test_the_public_fields_are_the_records() -> None:
    """The fields that are read for the public record are those of `JobRecord`, in its order."""
    assert ("job_id", *PUBLIC_FIELDS, "webhook") == JobRecord.__struct_fields__


@pytest.mark.parametrize(
    "script", [CREATE, ANSWER, ACCEPT, REBUILD, MOVE], ids=["CREATE", "ANSWER", "ACCEPT", "REBUILD", "MOVE"]
)
def test_an_announcement_holds_every_public_field_in_order(script: Script) -> None:
    """Read in this order, joined in this order, each value in the place of its name."""
    read = _function("move" if script is MOVE else "announce", script.text).partition("'HMGET', ")[2]
    assert tuple(re.findall(r"'(\w+)'", read))[: len(PUBLIC_FIELDS)] == PUBLIC_FIELDS
    pairs = re.findall(r'"(\w+)":"?\', ?\n? *(id|v\[\d+\])', _function("publish", script.text))
    assert pairs == [
        ("job_id", "id"),
        *((name, f"v[{place}]") for place, name in enumerate(PUBLIC_FIELDS, start=1)),
    ]


def test_an_event_carries_the_version_of_messages() -> None:
    """What the scripts write and what `decode_event` understands are one version."""
    assert f"'{VERSION} job.' .. v[1]" in _function("publish", MOVE.text)


@every_script
def test_a_script_is_called_by_its_digest(script: Script) -> None:
    """The digest is the one under which a server keeps the text."""
    assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()
    assert len(script.sha) == 40


def test_scripts_are_told_apart() -> None:
    """Each has a text of its own."""
    assert len(SCRIPTS) >= 10
    assert len({script.sha for script in SCRIPTS.values()}) == len(SCRIPTS)


@every_script
def test_a_script_sets_no_globals(script: Script) -> None:
    """A global would be refused by the server, at the first call only."""
    lines = re.sub(r"'[^'\n]*'|--[^\n]*", "", script.text).splitlines()
    known: set[str] = set()
    for line in lines:
        if declared := re.match(r"\s*local (?!function)([\w, ]+?)(?: =|$)", line):
            known |= set(declared[1].split(", "))
        assigned = re.match(r"\s*(\w+) = ", line)
        assert assigned is None or assigned[1] in known, line
        assert not re.match(r"\s*function ", line), line


def test_the_lifecycle_is_written_once() -> None:
    """The scripts are handed the statuses; they know by name only the two of an open job, to make a record."""

    def named(text: str) -> set[Status]:
        return {status for status in Status if f"'{status}'" in text}

    assert named(_own(MOVE)) == set()
    assert named(REBUILD.text) == {Status.QUEUED, Status.RUNNING}


def test_an_answered_job_is_handed_its_status() -> None:
    """The script that gives birth to a final record knows no status by name, beside what all scripts share."""
    own = _own(ANSWER)
    assert not [status for status in Status if f"'{status}'" in own]
    assert {int(number) for number in re.findall(r"ARGV\[(\d+)\]", own)} == set(range(1, 7))
    assert "slice(7, #ARGV)" in own


def test_values_are_numbered_as_the_head_says() -> None:
    """Nine fixed arguments, then names and values: the script reads each of them."""
    read = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", _own(MOVE))}
    assert read == set(range(1, 10))
    assert "ARGV[9 + i], ARGV[values + i]" in MOVE.text
    assert "9 + count * (i - 1)" in MOVE.text


def test_every_field_that_a_move_sets_has_its_place() -> None:
    """The places of what is read are those in which a move finds and changes it."""
    read = re.findall(r"'(\w+)'", _function("move", MOVE.text).partition("'HMGET', ")[2].partition(")")[0])
    places = re.search(r"local place = \{(.*?)\}", MOVE.text)
    assert places
    named = {name: int(place) for name, place in re.findall(r"(\w+) = (\d+)", places[1])}
    assert named == {
        name: place
        for place, name in enumerate(read, start=1)
        if name not in {"created_ms", "quota", "webhook"}
    }
    assert "tonumber(v[17])" in MOVE.text
    assert read[16] == "created_ms"
