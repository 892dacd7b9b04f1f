"""Commands are ones that a shell takes as they are."""

import json
import shlex
from urllib.parse import urlsplit

import pytest

from ingress.description.commands import ADDRESS, command


def words(line: str) -> list[str]:
    """Split the one command of some lines as a shell does."""
    return shlex.split(line.replace("\\\n", ""))


def test_a_look() -> None:
    """A GET names its address and nothing else."""
    assert command("/v1/stats", "GET") == f"curl -sS {ADDRESS}/v1/stats"


def test_a_submit_is_quoted() -> None:
    """Whatever is in a body, it arrives as it is."""
    body = {"text": 'it\'s $(rm -rf /) `x` "é" \\ \n'}
    made = words(command("/v1/infer", "POST", body=body))
    assert made[:2] == ["curl", "-sS"]
    assert made[2] == f"{ADDRESS}/v1/infer"
    assert made[3:5] == ["-H", "Content-Type: application/json"]
    assert made[5] == "-d"
    assert json.loads(made[6]) == body


@pytest.mark.parametrize(
    ("method", "given", "query"), [("GET", [], "?wait=10"), ("DELETE", ["-X", "DELETE"], "")]
)
def test_a_job_is_submitted_first(method: str, given: list[str], query: str) -> None:
    """Where a job is named, the commands make one and take its id; a look waits for the result."""
    submit, _, last = command("/v1/jobs/{job_id}", method).rpartition("\n")
    assert words(last) == ["curl", "-sS", *given, f"{ADDRESS}/v1/jobs/$job{query}"]
    assert submit.startswith("job=$(curl ")
    assert submit.endswith(")")


def test_a_key_comes_from_the_environment() -> None:
    """With keys each call names one, and none is written down."""
    for path in ("/v1/stats", "/v1/jobs/{job_id}"):
        made = command(path, "GET", keyed=True)
        assert made.count("curl ") == made.count('-H "Authorization: Bearer $INFERQ_API_KEY"')


def test_the_address_that_is_replaced_is_no_real_one() -> None:
    """What stands for the address can never be one (RFC 2606)."""
    assert (urlsplit(ADDRESS).hostname or "").endswith(".invalid")
