"""Findings as lines of text, tidy where a terminal is 80 wide. Pure."""

import textwrap
from collections.abc import Iterable
from typing import Final

from inferq.cli.examining.finding import Finding, Grade
from inferq.cli.plain import printable
from inferq.plurals import counted

WIDTH: Final = 80
_HEAD: Final = 18


def lines(finding: Finding) -> list[str]:
    """Return a finding's lines: grade, name and what was found, and below it the cure."""
    head = f"{finding.grade:<6} {finding.name:<10} "
    shown = _wrapped(finding.detail, head)
    if finding.cure:
        shown += _wrapped(f"cure: {finding.cure}", " " * _HEAD)
    return shown


def verdict(findings: Iterable[Finding]) -> str:
    """Return the last line."""
    grades = [finding.grade for finding in findings]
    bad, notes = grades.count(Grade.WRONG), grades.count(Grade.NOTE)
    beside = f", {counted(notes, 'note')}" if notes else ""
    return (f"{bad} wrong" if bad else "everything is well") + beside


def _wrapped(text: str, head: str) -> list[str]:
    # An address or a path that is broken could not be copied.
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * _HEAD,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]
