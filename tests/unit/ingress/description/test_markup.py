"""Pieces of HTML are escaped, whatever is put into them."""

import html
from html.parser import HTMLParser

import pytest

from ingress.description.markup import block, breakable, code, folded, link, prose, table

EVIL = "<script>\"'&</script>"


@pytest.mark.parametrize(
    "made",
    [
        prose(EVIL), prose(f"`{EVIL}`"), code(EVIL), link(EVIL, EVIL), link(EVIL, EVIL, coded=True), breakable(EVIL),
        block(EVIL), folded(EVIL, EVIL), folded(EVIL, {EVIL: EVIL}), table([EVIL], []),
    ],
)  # fmt: skip  # pieces side by side
def test_nothing_comes_through_as_markup(made: str) -> None:
    """Neither an element nor the end of an attribute can be made of a text."""
    seen: list[str] = []

    class Seen(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)
            assert all(name in {"href", "tabindex", "scope"} for name, _ in attrs)

    Seen().feed(made)
    assert "script" not in seen
    assert EVIL[:4] in html.unescape(made)


def test_prose_marks_code() -> None:
    """What stands between backticks is code; a backtick alone is one."""
    assert prose("a `b<c` d ` e") == "a <code>b&lt;c</code> d ` e"


def test_paths_break_before_slashes() -> None:
    """A long path may go on in the next line."""
    assert breakable("/v1/jobs") == "<wbr>/v1<wbr>/jobs"


def test_examples_are_shown_as_json_or_as_they_are() -> None:
    """Texts are not quoted, and letters of any script are shown as such."""
    assert "<code>a\nb</code>" in folded("x", "a\nb")
    assert "&quot;é&quot;" in folded("x", {"a": "é"})


def test_cells_name_their_heads() -> None:
    """Where a table is shown as a list, each cell can still say what it is; a row of another length is a mistake."""
    assert table(["A", "B"], [("1", "")]) == (
        '<table><thead><tr><th scope="col">A</th><th scope="col">B</th></tr></thead>'
        '<tbody><tr><td data-head="A">1</td><td data-head="B"></td></tr></tbody></table>'
    )
    with pytest.raises(ValueError, match="shorter"):
        table(["A", "B"], [("1",)])
