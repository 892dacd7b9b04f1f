"""Writes a report: Markdown, JSON and pictures, side by side in a folder."""

from itertools import count
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from loadgen.reports.document import Document, as_json, indexed, markdown, picture_file

INDEX: Final = "README.md"


def write(document: Document, folder: Path, name: str) -> Path:
    """Write a report as ``DATE-NAME`` and return the Markdown's path; one of the same name of that day stays.

    An index in the folder gets a row for it.

    Raises `OperatorError` when the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stem = _free(folder, f"{document.began_at[:10]}-{name}")
        for picture in document.pictures():
            (folder / picture_file(stem, picture)).write_text(picture.svg, encoding="utf-8")
        (folder / f"{stem}.json").write_bytes(as_json(document))
        page = folder / f"{stem}.md"
        page.write_text(markdown(document, stem), encoding="utf-8")
        index = folder / INDEX
        if index.is_file():
            index.write_text(indexed(index.read_text(encoding="utf-8"), document, stem), encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"the report cannot be written to {folder}: {error.strerror}") from error
    return page


def _free(folder: Path, stem: str) -> str:
    """Return a name that no report has, whole or in part; a report's JSON alone is worth as much as its page."""
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(
        name for name in names if not any((folder / f"{name}{end}").exists() for end in (".md", ".json"))
    )
