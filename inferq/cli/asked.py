"""One line of input as what is asked of the API, or what is wrong with it. Pure.

A line is a text, or with `--input-json` an object whose fields are the API's. What an object does not say is as the
options say for all. A line that cannot be sent is refused here, in its place, as the API would refuse it.
"""

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from inferq.sdk.batches import Options

INVALID: Final = "invalid_request"
# As much as the API takes in one request; what is longer is cut where it is read.
LONGEST_LINE_BYTES: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A text or a pair of them, and how it is to be run."""

    text: str
    options: Options
    text_pair: str | None = None


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A line that cannot be sent, and why; ``text`` is what there is of it to show."""

    text: str
    detail: str


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    text_pair: str | None = None
    model: str | None = None
    priority: str | None = None
    deadline_ms: int | None = None
    webhook: str | None = None


_decoder = msgspec.json.Decoder(_Line)


def from_text(text: str, options: Options) -> Asked | Unreadable:
    """Return what a text asks for; its bytes that were no UTF-8 are surrogates by now."""
    fault = _fault(text)
    return Asked(text=text, options=options) if fault is None else Unreadable(text=text, detail=fault)


def from_json(line: str, options: Options) -> Asked | Unreadable:
    """Return what a line of JSON asks for."""
    if (fault := _fault(line)) is not None:
        return Unreadable(text=line, detail=fault)
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return Unreadable(text=line, detail=f"the line is not what the API takes: {error}")
    return Asked(
        text=found.text,
        text_pair=found.text_pair,
        options=Options(
            model=found.model or options.model,
            priority=found.priority or options.priority,
            deadline_ms=options.deadline_ms if found.deadline_ms is None else found.deadline_ms,
            webhook=options.webhook if found.webhook is None else found.webhook,
        ),
    )


def with_pair(asked: Asked | Unreadable, text_pair: str | None) -> Asked | Unreadable:
    """Return what is asked with this second text, where it has none of its own."""
    if text_pair is None or isinstance(asked, Unreadable) or asked.text_pair is not None:
        return asked
    return replace(asked, text_pair=text_pair)


def _fault(line: str) -> str | None:
    if len(line.encode(errors="surrogatepass")) > LONGEST_LINE_BYTES:
        return f"the line is longer than {LONGEST_LINE_BYTES:,} bytes"
    try:
        line.encode()
    except UnicodeEncodeError:
        return "the line is not UTF-8"
    return None
