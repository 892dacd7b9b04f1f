"""Writes a report: Markdown, JSON and pictures, side by side in a folder."""

import tempfile
from itertools import count
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from loadgen.reports.document import END_OF_REPORTS, Document, as_json, indexed, markdown, picture_file

INDEX: Final = "README.md"


def writable(folder: Path) -> None:
    """Make sure, before anything is measured, that a report can be written there; the folder is made.

    Raises `OperatorError` when it cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def write(document: Document, folder: Path, name: str) -> Path:
    """Write a report as ``DATE-NAME`` and return the Markdown's path; one of the same name of that day stays.

    What cannot stand in a file's name becomes a dash. An index in the folder gets a row for it.

    Raises `OperatorError` when the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filed = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name)
        stem = _free(folder, f"{document.began_at[:10]}-{filed}")
        for picture in document.pictures():
            (folder / picture_file(stem, picture)).write_text(picture.svg, encoding="utf-8")
        (folder / f"{stem}.json").write_bytes(as_json(document))
        page = folder / f"{stem}.md"
        index = folder / INDEX
        listed = index.is_file() and END_OF_REPORTS in (known := index.read_text(encoding="utf-8"))
        page.write_text(markdown(document, stem, index=INDEX if listed else ""), encoding="utf-8")
        if listed:
            index.write_text(indexed(known, document, stem), encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return page


def _unwritable(folder: Path, error: OSError) -> OperatorError:
    return OperatorError(f"the report cannot be written to {folder}: {error.strerror}")


def _free(folder: Path, stem: str) -> str:
    """Return a name that no report has, whole or in part; a report's JSON alone is worth as much as its page."""
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(
        name for name in names if not any((folder / f"{name}{end}").exists() for end in (".md", ".json"))
    )
