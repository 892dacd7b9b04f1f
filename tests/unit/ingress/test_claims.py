"""What Redis answers to a claim, and what becomes of a claim whose work has raised."""

import asyncio
import hashlib
import re
from typing import Any

import pytest

from inferq.errors import CircuitOpen, QueueFull, Unavailable
from inferq.idem_scripts import CLAIM, KEEP, LET_GO
from ingress.admission import Crowded
from ingress.claims import Foreign, Kept, Look, Mine, Mismatch, Pending, SeedSpent, is_forgotten, read_look

SEED = b"0123456789abcdef" * 2
ANSWERS: list[tuple[list[bytes], Look]] = [
    ([b"claimed", SEED], Mine(seed=SEED.decode(), resumed=False)),
    ([b"taken_over", SEED], Mine(seed=SEED.decode(), resumed=True)),
    ([b"kept", b"{}", b"/v1/jobs/1"], Kept(answer=b"{}", location="/v1/jobs/1")),
    ([b"kept", b"{}", b""], Kept(answer=b"{}", location=None)),
    ([b"pending"], Pending()),
    ([b"mismatch"], Mismatch()),
    ([b"foreign"], Foreign()),
]


@pytest.mark.parametrize(("reply", "look"), ANSWERS)
def test_an_answer_of_the_script_is_read(reply: list[bytes], look: Look) -> None:
    """Each has one meaning."""
    assert read_look(reply) == look


def test_no_answer_of_the_script_is_missing_here() -> None:
    """The table above holds every word that the script can begin its answer with."""
    words = set(re.findall(r"return \{'(\w+)'", CLAIM.text))
    assert words == {reply[0].decode() for reply, _ in ANSWERS}


@pytest.mark.parametrize(
    "reply",
    [
        None,
        1,
        b"claimed",
        [],
        [b"claimed"],
        [b"claimed", SEED[1:]],
        [b"claimed", SEED.upper()],
        [b"claimed", SEED + b"\n"],
        [b"taken_over", b"../../job"],
        [b"kept", b"{}"],
        [b"kept", b"", b"/v1/jobs/1"],
        [b"kept", b"{}", "/v1/jobs/é".encode()],
        [b"kept", 1, b""],
        [b"new word"],
    ],
)
def test_what_is_no_answer_of_ours_is_foreign(reply: Any) -> None:
    """Whatever somebody else wrote under the key, it is no seed and no answer."""
    assert read_look(reply) == Foreign()


@pytest.mark.parametrize(
    ("error", "forgotten"),
    [
        (QueueFull("full"), True),
        (SeedSpent(), True),
        (Unavailable("away"), False),
        (Crowded("as many as may be"), True),
        (CircuitOpen("at the door", begun=False), True),
        (CircuitOpen("in the middle", begun=True), False),
        (asyncio.CancelledError(), False),
        (RuntimeError("a fault"), False),
    ],
)
def test_a_seed_is_forgotten_only_when_all_is_known_of_it(error: BaseException, forgotten: bool) -> None:
    """A refusal leaves nothing; after anything else, and where another began with it, it is the next asker's."""
    assert is_forgotten(error, resumed=False) is forgotten
    assert is_forgotten(error, resumed=True) is isinstance(error, SeedSpent)


def test_a_script_touches_its_one_key_and_is_known_by_its_text() -> None:
    """No key is made up inside, so a cluster finds the place; the name is the SHA-1 that Redis gives it."""
    for script in (CLAIM, KEEP, LET_GO):
        assert set(re.findall(r"KEYS\[(\d+)\]", script.text)) == {"1"}
        assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()
