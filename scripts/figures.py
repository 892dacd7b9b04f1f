"""Compare the figures that README.md and docs/ quote with the reports in docs/benchmarks; `--write` takes them over.

The rules are in loadgen/reports/sources.py and quoted.py: how a page names a figure, and what a report holds.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from loadgen.reports.quoted import Fault, checked
from loadgen.reports.sources import Source, figures_of, values_of
from loadgen.reports.unmarked import unmarked

ROOT = Path(__file__).resolve().parent.parent
REPORTS = "docs/benchmarks"

# Numbers with a unit that nobody measured, by page: they with words of their line, and what they are.
NO_FIGURES: dict[str, dict[str, str]] = {
    "README.md": {
        "150 unique movie snippets a second for 30 s": "the load that was asked for",
    },
    "docs/architecture.md": {
        "read every 250 ms": "an interval that is set",
        "Above 1 ms at the 99th percentile, or above 80 % of a core": "limits",
        "opened anew once in 0.1 s": "an interval that is set",
        "cut off after 1.5 s": "a limit",
        "messages again only below 80 %": "RabbitMQ's own rule",
        "the queue drains to 80 %": "a threshold that is set",
        "before it enqueues, within 200 ms": "a limit",
        "that were not for 10 ms": "a threshold that is set",
        "4,096 references, 0.3 MiB": "a limit times the size of an entry",
        "A watched job costs once some 2 KiB": "counted from the sizes of its objects",
        "10,000,000 registrations (180 MB)": "a limit times the size of an entry",
        "500,000 different jobs (some 1.5 GB)": "a limit times the size of an entry",
        "a try takes at most 10 s and a second": "a limit",
        "128 KiB for it besides: left alone it would take 3 MB": "bounds of the kernel's buffer: set, and its own",
        "the 1.5 s of a submit": "a limit",
        "moves a webhook's due time on by 15 s": "a lease that is set",
        "1.5 s from its last byte": "a limit",
        "0.8 s, 1 s": "limits",
        "| 0.2 s | goes on as a miss": "a limit",
    },
    "docs/deploy.md": {
        "768 MB | volume `rabbitmq` | 60 s": "limits",
        "1 GB | volume `redis` | 30 s": "limits",
        "8080 | 512 MB | nothing | 20 s": "limits",
        "8081 | 512 MB | nothing | 20 s": "limits",
        "2 GB | nothing | 45 s": "limits",
    },
    "docs/benchmarks/README.md": {
        "offers 150 jobs a second for 30 s": "the load that is asked for",
        "150 jobs a second on both brokers": "the load that is asked for",
    },
}


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that may quote figures, in all folders; reports themselves are what is quoted."""
    reports = root / REPORTS
    found = sorted((root / "docs").rglob("*.md"))
    quoting = [page for page in found if page.parent != reports or page.name == "README.md"]
    return [root / "README.md", *quoting]


class Reports:
    """The reports in a folder, read as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._read = folder, dict[str, Source]()

    def __call__(self, file: str) -> Source:
        """Return a report's figures. Raises `KeyError` where there is no such file."""
        if file not in self._read:
            path = self._folder / file
            if not path.is_file():
                raise KeyError(file)
            self._read[file] = _figures(path)
        return self._read[file]


def faults(root: Path = ROOT, exempt: Mapping[str, Mapping[str, str]] = NO_FIGURES) -> list[str]:
    """Return a line for each figure that disagrees, is not marked, or is exempt in vain."""
    reports = Reports(root / REPORTS)
    found: list[str] = []
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
        _, wrong = checked(text, reports)
        found += [_told(name, fault) for fault in wrong]
        reasons = exempt.get(name, {})
        loose = list(unmarked(text))
        lines = text.splitlines()
        rest = text
        for words in reasons:
            # The words alone are exempt: what else stands on their line is not.
            rest = rest.replace(words, " ")
        found += [
            _told(name, Fault(line=fault.line, text=f"names no report: {lines[fault.line - 1].strip()}"))
            for fault in unmarked(rest)
        ]
        found += [
            f"{name}: {words!r} is exempt, and stands nowhere"
            for words in reasons
            if not any(words in fault.text for fault in loose)
        ]
    return found


def write(root: Path = ROOT) -> None:
    """Take the reports' figures over into the pages."""
    reports = Reports(root / REPORTS)
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        right, _ = checked(text, reports)
        if right != text:
            page.write_text(right, encoding="utf-8")


def main(argv: list[str]) -> int:
    """Return 1 when a figure disagrees and is not written."""
    if argv == ["--write"]:
        write()
    elif argv:
        print("usage: python -m scripts.figures [--write]", file=sys.stderr)
        return 2
    found = faults()
    print("\n".join(found) if found else "all figures agree with their reports")
    return 1 if found else 0


def _figures(path: Path) -> dict[str, str]:
    if path.suffix == ".json":
        tree: Any = msgspec.json.decode(path.read_bytes())
        return values_of(tree)
    return figures_of(path.read_text(encoding="utf-8"))


def _told(name: str, fault: Fault) -> str:
    return f"{name}:{fault.line}: {fault.text}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
