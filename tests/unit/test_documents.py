"""What the pages name exists, what they list is whole, and their links lead somewhere."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from batcher.policy import CloseReason
from inferq.cli.app import app
from inferq.options import OPTIONS
from ingress.description.document import document
from ingress.description.meanings import FIELDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGES = ("inferq", "ingress", "batcher", "notifier", "loadgen")
# What the client and the commands read besides settings.
CLIENT_VARIABLES = {"INFERQ_URL", "INFERQ_API_KEY"}


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):.*## ", _text("Makefile"), re.MULTILINE))


def test_the_readme_names_every_make_target() -> None:
    """Who reads the README alone knows every command."""
    assert len(_targets()) > 8
    readme = _text("README.md")
    assert [target for target in _targets() if target != "help" and f"`make {target}" not in readme] == []


@pytest.mark.parametrize("block", ["demo output", "figures"])
def test_the_readme_shows_what_came_out(block: str) -> None:
    """Neither the demo's output nor the table of figures is left empty."""
    found = re.search(rf"<!-- {block}(?:: [^\n]*)? -->\n(.*)<!-- /{block} -->", _text("README.md"), re.DOTALL)
    assert found is not None, f"the README has lost its marks for {block}"
    # Of a table, the head and the line below it are not enough.
    rows = [line for line in found[1].splitlines() if line.strip(" `|-")]
    assert len(rows) > 1, f"nothing between the README's marks for {block}"


def _anchors(page: Path) -> set[str]:
    """Return what a link may name in a page: its headings, as they are shown on the web."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_the_pages_lead_somewhere() -> None:
    """Every relative link in the documentation names a file that exists, and a heading that is in it."""
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            named = page.parent / link if link else page
            assert named.exists(), f"{page.name} links to {link}"
            assert not anchor or anchor in _anchors(named), f"{page.name} links to {link}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    """Variables, make targets, modules, commands, scripts and metrics: also where no test runs them."""
    text = page.read_text(encoding="utf-8")

    def named(pattern: str) -> set[str]:
        return set(re.findall(pattern, text, re.MULTILINE))

    variables = {option.variable for option in OPTIONS} | CLIENT_VARIABLES
    assert named(r"\bINFERQ_[A-Z_]*[A-Z]\b") - variables == set()
    assert named(r"(?:`|^|&& |[A-Z]\S+=\S+ )make ([a-z-]+)") - _targets() == set()
    modules = {module for module in named(r"\bpython -m ([\w.]+)") if not importlib.util.find_spec(module)}
    assert modules == set()
    commands = re.findall(r"(?:`|\.venv/bin/)inferq ([a-z]+)(?: ([a-z]+))?\b", text, re.MULTILINE)
    assert [found for found in commands if found[0] not in _commands()] == []
    below = [(name, sub) for name, sub in commands if sub and _commands()[name]]
    assert [(name, sub) for name, sub in below if sub not in _commands()[name]] == []
    scripts = named(r"\b((?:scripts|tests|loadgen|inferq|ingress|batcher|notifier)/[\w/-]+\.\w+)")
    assert {script for script in scripts if not (ROOT / script).is_file()} == set()
    metrics = named(r"`inferq_([a-z_]+)")
    assert {metric for metric in metrics if not _is_fed(metric)} == set()


def _is_fed(metric: str) -> bool:
    """Whether a metric is registered; ``feed_…`` stands for all that begin so."""
    if metric.endswith("_"):
        return f'"{metric}' in _code()
    # The ends of counters and histograms are added where they are registered.
    return any(f'"{metric.removesuffix(end)}"' in _code() for end in ("", "_total", "_seconds", "_bytes"))


@cache
def _commands() -> dict[str, set[str]]:
    """Return the commands of `inferq`, each with those below it."""
    found: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    return {name: set(getattr(command, "commands", ())) for name, command in found.items()}


@cache
def _code() -> str:
    return "".join(path.read_text("utf-8") for name in PACKAGES for path in (ROOT / name).rglob("*.py"))


def test_the_table_of_commands_is_whole() -> None:
    """docs/operating.md names every command, with those below it."""
    table = _text("docs/operating.md").partition("## Commands")[2]
    for name, below in _commands().items():
        (row,) = re.findall(rf"^\|.*`inferq {name}\b.*$", table, re.MULTILINE)
        assert [one for one in below if f"`{one}`" not in row and f" {one}`" not in row] == [], row


def _problems(part: Any) -> set[tuple[int, str]]:
    """Return what a part of the API's description says of problems: statuses with their codes."""
    found: set[tuple[int, str]] = set()
    if isinstance(part, dict):
        code, status = part.get("code"), part.get("status")
        if isinstance(code, dict) and isinstance(status, dict) and "enum" in code and "const" in status:
            found = {(status["const"], one) for one in code["enum"]}
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return found.union(*map(_problems, inner))


def test_the_table_of_errors_is_whole() -> None:
    """docs/api.md says of every problem that the API's description has what to do."""
    rows = re.findall(r"^\| (\d{3}[\d, ]*) \| (.*) \| .+ \|$", _text("docs/api.md"), re.MULTILINE)
    told = {
        (int(status), code)
        for head, codes in rows
        for status in head.split(", ")
        for code in codes.split("`")
    }
    described = _problems(document())
    assert len(described) > 12
    assert described - told == set()


def test_every_reason_to_close_a_batch_is_told() -> None:
    """docs/concepts.md has what a record may show, and what the API's description names besides."""
    table = _text("docs/concepts.md").partition("### Why a batch closed")[2].partition("\n\n**")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"close_reason"}
    named = set(re.findall(r"`(\w+)`", FIELDS["BatchInfo"]["close_reason"]))
    assert set(CloseReason) <= told == named


def test_the_index_has_every_page() -> None:
    """Who reads docs/README.md finds all of docs/."""
    index = _text("docs/README.md")
    pages = [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in index] == []
