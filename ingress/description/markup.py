"""Pieces of HTML: escaped text, links, tables. Pure.

What is put into the page comes through here, and is escaped here. Texts of the description may mark code by backticks,
and no more.
"""

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_CODE: Final = re.compile(r"`([^`]+)`")

escape = html.escape


def prose(text: str) -> str:
    """Return a text with its code marked as such."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def code(text: str) -> str:
    """Return a text as code."""
    return f"<code>{escape(text)}</code>"


def link(place: str, text: str, *, coded: bool = False) -> str:
    """Return a link to a place on the page."""
    return f'<a href="#{escape(place)}">{code(text) if coded else escape(text)}</a>'


def breakable(path: str) -> str:
    """Return a path that a narrow page may break before its slashes."""
    return escape(path).replace("/", "<wbr>/")


def block(text: str) -> str:
    """Return lines of code; it can be scrolled by key."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def folded(summary: str, value: Any) -> str:
    """Return an example that opens on a click: a text as it is, any other value as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return f"<details><summary>{prose(summary)}</summary>{block(text)}</details>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; each names its head, for where it has no room beside others."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{escape(head)}">{cell}</td>' for head, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
