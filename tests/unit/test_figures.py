"""Every figure in README.md and docs/ agrees with the report that it names, and every report names its command."""

import re
import shutil
from pathlib import Path

import pytest

from loadgen.reports.sources import cells_of
from scripts import figures

ROOT = figures.ROOT
REPORTS = ROOT / figures.REPORTS
COMMANDS = ("make bench", "make test-browser", "scripts/", "-m scripts.", "-m loadgen", "inferq ")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the pages and reports."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def changed(page: Path, old: str, new: str) -> None:
    """Change a page where it says so."""
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_all_figures_agree_with_their_reports() -> None:
    """`make figures ARGS=--write` takes new ones over; what is no figure is listed in it."""
    assert figures.faults() == []


@pytest.mark.parametrize(
    ("page", "figure"),
    [
        ("README.md", r"([\d.]+) such jobs"),
        ("README.md", r"\| submit to push, p99 \|  \| ([\d.]+) ms"),
        ("docs/architecture.md", r"([\d.]+) KiB of the process"),
        ("docs/benchmarks/steady.md", r"streams, submit to push, p99: ([\d.]+) ms"),
    ],
)
def test_a_number_that_is_changed_is_found_and_can_be_set_right(copy: Path, page: str, figure: str) -> None:
    """In prose, in a table, in another page, and in the report itself."""
    text = (copy / page).read_text(encoding="utf-8")
    (found,) = re.finditer(figure, text)
    (copy / page).write_text(f"{text[: found.start(1)]}9{text[found.start(1) :]}", encoding="utf-8")
    assert len(figures.faults(copy)) == 1
    figures.write(copy)
    assert figures.faults(copy) == []


def test_a_new_number_without_a_report_is_found(copy: Path) -> None:
    """It is told with its page and line."""
    changed(copy / "README.md", "## Figures\n", "## Figures\n\nIt takes 12 ms.\n")
    (fault,) = figures.faults(copy)
    assert fault.startswith("README.md:")
    assert fault.endswith("names no report: It takes 12 ms.")


def test_an_exemption_is_of_its_words_and_not_of_their_line(copy: Path) -> None:
    """A figure that is added beside a limit is found."""
    changed(copy / "docs/architecture.md", "cut off after 1.5 s", "cut off after 1.5 s, and takes 12 ms,")
    (fault,) = figures.faults(copy)
    assert "takes 12 ms" in fault


def test_an_exemption_that_is_not_needed_any_more_is_found() -> None:
    """The list stays true."""
    exempt = figures.NO_FIGURES | {"docs/webhooks.md": {"some words": "a limit"}}
    assert figures.faults(exempt=exempt) == ["docs/webhooks.md: 'some words' is exempt, and stands nowhere"]


def test_figures_may_come_from_a_reports_json(copy: Path) -> None:
    """By the names that lead to them."""
    (copy / "docs/benchmarks/new.json").write_text('{"medians": {"p99": 12.34}}')
    changed(
        copy / "README.md", "## Figures\n", "## Figures\n\nIt takes 12 ms. <!-- new.json: medians / p99 -->\n"
    )
    assert figures.faults(copy) == []
    changed(copy / "README.md", "It takes 12 ms.", "It takes 13 ms.")
    assert len(figures.faults(copy)) == 1


@pytest.mark.parametrize("page", ["docs/benchmarks/README.md", "docs/guides/one.md"])
def test_pages_in_folders_are_read_too(copy: Path, page: str) -> None:
    """And the index of reports, which is no report."""
    (copy / "docs/guides").mkdir()
    with (copy / page).open("a") as file:
        file.write("\nIt takes 12 ms.\n")
    (fault,) = figures.faults(copy)
    assert fault.startswith(f"{page}:")


def test_the_command_prints_what_disagrees(capsys: pytest.CaptureFixture[str]) -> None:
    """0 where all agrees; other arguments are refused."""
    assert figures.main([]) == 0
    assert "agree" in capsys.readouterr().out
    assert figures.main(["--help"]) == 2


def test_each_row_of_the_index_leads_to_a_report_and_has_its_command() -> None:
    """The command that the index gives is one that the report names, whatever options it adds."""
    index = (REPORTS / "README.md").read_text(encoding="utf-8")
    rows = [cells_of(line) for line in index.splitlines() if line.startswith("| [")]
    assert rows
    for link, _, commands in rows:
        page = (REPORTS / link.partition("](")[2].rstrip(")")).read_text(encoding="utf-8")
        for command in commands.split("`")[1::2]:
            assert command.partition(" ARGS=")[0] in page, link


@pytest.mark.parametrize(
    "report", sorted(path.name for path in REPORTS.glob("*.md") if path.name != "README.md")
)
def test_every_report_names_its_command_and_stands_in_the_index(report: str) -> None:
    """A block of code with a command; the index links to it."""
    blocks = (REPORTS / report).read_text(encoding="utf-8").split("```")[1::2]
    assert any(command in block for block in blocks for command in COMMANDS)
    assert f"]({report})" in (REPORTS / "README.md").read_text(encoding="utf-8")
