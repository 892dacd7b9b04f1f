"""One line of input as what is asked of the API, or what is wrong with it. Pure.

A line is a text, or with `--input-json` an object whose fields are the API's. What an object does not say is as the
options say for all. A line that cannot be sent is refused here, in its place, as the API would refuse it.
"""

from dataclasses import dataclass

import msgspec

INVALID = "invalid_request"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked for every text that does not ask for itself; None leaves it to the API."""

    model: str | None = None
    priority: str | None = None
    deadline_ms: int | None = None
    webhook: str | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A text, and how it is to be run."""

    text: str
    options: Options


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A line that cannot be sent, and why; ``text`` is what there is of it to show."""

    text: str
    detail: str


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    model: str | None = None
    priority: str | None = None
    deadline_ms: int | None = None
    webhook: str | None = None


_decoder = msgspec.json.Decoder(_Line)


def from_text(text: str, options: Options) -> Asked | Unreadable:
    """Return what a text asks for; its bytes that were no UTF-8 are surrogates by now."""
    if _is_unicode(text):
        return Asked(text=text, options=options)
    return Unreadable(text=text, detail="/text is not UTF-8")


def from_json(line: str, options: Options) -> Asked | Unreadable:
    """Return what a line of JSON asks for."""
    if not _is_unicode(line):
        return Unreadable(text=line, detail="the line is not UTF-8")
    try:
        found = _decoder.decode(line)
    except RecursionError:
        return Unreadable(text=line, detail="the line is nested too deeply")
    except msgspec.DecodeError as error:
        return Unreadable(text=line, detail=f"the line is no object of the API: {error}")
    return Asked(
        text=found.text,
        options=Options(
            model=found.model or options.model,
            priority=found.priority or options.priority,
            deadline_ms=options.deadline_ms if found.deadline_ms is None else found.deadline_ms,
            webhook=found.webhook or options.webhook,
        ),
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
