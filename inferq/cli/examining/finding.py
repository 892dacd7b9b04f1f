"""What was found of one part, how grave it is, and what to do about it. Pure.

A note is worth knowing and leaves the whole well: something that works and could be better, or that could not be seen.
"""

from dataclasses import dataclass
from enum import StrEnum

from inferq.errors import InferqError, OperatorError


class Grade(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at; ``cure`` says what to do where it is not as it should be."""

    name: str
    grade: Grade
    detail: str
    cure: str = ""


def ok(name: str, detail: str) -> Finding:
    """Make a finding that nothing is to be done about."""
    return Finding(name=name, grade=Grade.OK, detail=detail)


def note(name: str, detail: str, cure: str) -> Finding:
    """Make a finding that is worth knowing."""
    return Finding(name=name, grade=Grade.NOTE, detail=detail, cure=cure)


def wrong(name: str, detail: str, cure: str) -> Finding:
    """Make a finding that must be mended."""
    return Finding(name=name, grade=Grade.WRONG, detail=detail, cure=cure)


def of_error(name: str, error: InferqError) -> Finding:
    """Make a finding of an error; an operator's mistake says its cure last, behind a colon."""
    text = str(error)
    if isinstance(error, OperatorError):
        detail, _, cure = text.rpartition(": ")
        if detail:
            return wrong(name, detail, cure)
    return wrong(name, text, "see the logs of the service that it is about")
