"""What README.md and docs/ show as commands, as text: marked where it is not run, shell, and nowhere hidden."""

import asyncio
import re

import pytest

from tests.acceptance.pages import KINDS, REASONS, Block, agrees, blocks, fences, holds, kinds, pages, text_of

# Written by the benchmarks, with the command that was given.
REPORTS = [page for page in pages() if re.fullmatch(r"docs/benchmarks/(?!README).*", page)]
PAGES = [page for page in pages() if any(blocks(page))]
_COMMAND = re.compile(
    r"^ *(?:[$#>] |(?:\S*/)?(?:make|curl|git|pip|docker|sh|bash|python3?|export|cd|inferq|INFERQ_\w+=\S*) )",
    re.MULTILINE,
)
# A reader's PATH need not have the environment on it.
_BARE = re.compile(r"(?:^|[|;&(] *|\bINFERQ_\w+=\S+ )(?:inferq|pip|python3?) ", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_says_why(page: str) -> None:
    """In a comment before the block, with a reason that is on the list and true of it."""
    for block in blocks(page):
        if block.reason is not None:
            assert block.reason in REASONS, f"{page}:{block.line}"
            assert re.search(REASONS[block.reason], block.text, re.M), f"{page}:{block.line} could be run"
            assert block.starts is None, f"{page}:{block.line} is a pipeline that the tests start"


@pytest.mark.parametrize("page", PAGES)
async def test_a_block_of_commands_is_shell(page: str) -> None:
    """Any shell of a reader's takes it: no other is needed, and no quote is left open, also in what is not run."""
    for block in blocks(page):
        if block.kind == "sh":
            checked = await asyncio.create_subprocess_exec("sh", "-nc", block.text)
            assert await checked.wait() == 0, f"{page}:{block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_a_block_names_where_a_command_is(page: str) -> None:
    """Who has put nothing on the PATH can paste it."""
    for block in blocks(page):
        # Beside containers there need be no environment at all.
        if block.kind == "sh" and block.reason != "needs Docker":
            assert not _BARE.search(block.text), f"{page}:{block.line}"


def test_most_commands_are_run() -> None:
    """A mark is an exception, no reason is kept in stock, and no mark stands but before a block of commands."""
    every = [block for page in PAGES for block in blocks(page)]
    marked = [block for block in every if block.reason is not None]
    assert len(every) > 30
    assert len(marked) * 4 <= len(every)
    assert {block.reason for block in marked} == set(REASONS)
    assert sum(text_of(page).count("<!-- not run") for page in pages()) == len(marked)


def test_what_is_shown_has_to_come_out() -> None:
    """Numbers and identities may differ, and what is left out; nothing else."""
    assert agrees('{"job_id":"0f","seq":5}', '{"job_id":"…","seq":3}')
    assert agrees("POSITIVE 0.9 I loved it\n", "POSITIVE  0.9951  I …")
    assert not agrees('{"job_id":"0f"}', '{"job_id":"…","seq":3}')
    assert not agrees("NEGATIVE", "POSITIVE")
    assert not agrees("POSITIVE\nNEGATIVE\n", "POSITIVE")
    assert holds("POSITIVE\nNEGATIVE\n", "NEGATIVE")


def test_a_comment_says_what_its_request_is_answered() -> None:
    """The one above it or before it on the line; a request without one is to succeed."""
    text = "curl a\ncurl b   # 200 or 409, says somebody\nx=$(curl c | head -1)\n# 404 {…}\n"
    block = Block(page="", line=1, kind="sh", text=text, reason=None, shown=None)
    assert [sorted(said.statuses) for said in block.said] == [[200, 202, 204], [200, 409], [404]]
    assert block.said[2].body == "{…}"
    assert block.starts is None


@pytest.mark.parametrize("page", [page for page in pages() if page not in REPORTS])
def test_no_command_hides_in_another_block(page: str) -> None:
    """A block that is not `sh` is no command, on no line; reports of benchmarks show theirs as they were given."""
    assert set(kinds(page)) <= KINDS
    for kind in KINDS - {"sh", "python"}:
        for text in fences(page, kind):
            assert not _COMMAND.search(text), f"{page}: {text}"
