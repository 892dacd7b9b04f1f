"""How to install what is missing: the commands that errors name as their cure.

They use the pip of the Python that runs, and name packages as registries know them. Our own name they never ask a
registry for: whatever bears it there is not ours.
"""

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

_OF_EXTRA: Final = re.compile(r"(?P<what>[^;]+);\s*extra\s*==\s*[\"'](?P<extra>[\w-]+)[\"']")


def pip_install(*requirements: str) -> str:
    """Return the command that installs packages for this Python."""
    return _pip("install", *requirements)


def pip_uninstall(*packages: str) -> str:
    """Return the command that removes packages from this Python."""
    return _pip("uninstall", *packages)


def install_extra(extra: str) -> str:
    """Return the command that installs what an extra of pyproject.toml asks for."""
    try:
        stated = requires("inferq") or []
    except PackageNotFoundError:
        # It runs from its source, uninstalled: there pip finds the extra.
        return pip_install(f"{Path(__file__).parent.parent}[{extra}]")
    found = (_OF_EXTRA.fullmatch(one.strip()) for one in stated)
    return pip_install(*(one["what"].strip() for one in found if one is not None and one["extra"] == extra))


def _pip(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", *words])
