"""What can be said of the scripts without a server: they and the tables they stand on name the same things."""

import hashlib
import re

import pytest

from inferq import scripts
from inferq.broker import stream_scripts
from inferq.broker.stream_scripts import ACCEPT
from inferq.jobs import JobRecord, Status
from inferq.messages import VERSION
from inferq.scripts import CREATE, MOVE, PUBLIC_FIELDS, Script

SCRIPTS = {
    name: value
    for module in (scripts, stream_scripts)
    for name, value in vars(module).items()
    if isinstance(value, Script)
}
every_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())


def _announce(text: str) -> str:
    found = re.search(r"^local function announce\(.*?^end$", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


def test_the_public_fields_are_the_records() -> None:
    """The fields that are read for the public record are those of `JobRecord`, in its order."""
    assert ("job_id", *PUBLIC_FIELDS) == JobRecord.__struct_fields__


@pytest.mark.parametrize("script", [CREATE, ACCEPT, MOVE], ids=["CREATE", "ACCEPT", "MOVE"])
def test_an_announcement_holds_every_public_field_in_order(script: Script) -> None:
    """Read in this order, joined in this order, each value in the place of its name."""
    body = _announce(script.text)
    read, joined = body.split("table.concat")
    assert tuple(re.findall(r"'(\w+)'", read))[1:] == PUBLIC_FIELDS
    pairs = re.findall(r'"(\w+)":"?\', ?\n? *(id|v\[\d+\])', joined)
    assert pairs == [
        ("job_id", "id"),
        *((name, f"v[{place}]") for place, name in enumerate(PUBLIC_FIELDS, start=1)),
    ]


def test_an_event_carries_the_version_of_messages() -> None:
    """What the scripts write and what `decode_event` understands are one version."""
    assert f"'{VERSION} job.' .. v[1]" in _announce(MOVE.text)


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
    """The move script is handed the statuses; it knows by name only the two of an open job that it rebuilds."""
    named = {status for status in Status if f"'{status}'" in MOVE.text}
    assert named == {Status.QUEUED, Status.RUNNING}


def test_values_are_numbered_as_the_head_says() -> None:
    """Twelve fixed arguments, then what is counted: the script reads each of them."""
    read = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", MOVE.text)}
    assert read == set(range(1, 13))
    assert "slice(13, 12 + count)" in MOVE.text
    assert "slice(13 + count, #ARGV)" in MOVE.text
