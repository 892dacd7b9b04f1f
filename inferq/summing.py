"""Metrics of several processes as one: prometheus_client keeps their values in files of a folder and sums those."""

import shutil
from pathlib import Path
from typing import Final

SUMMED_IN: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder; prometheus_client looks at it when it is imported."""
SUMMING_VARIABLES: Final = (SUMMED_IN, SUMMED_IN.lower())
"""Both spellings that turn this on in whatever process has them."""


def empty_folder(folder: Path) -> None:
    """Make the folder anew: values that are found there count."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
