"""Run the unit tests and demand that they alone cover the pure rooms to 100 %.

The rooms are those that the import-linter contract `pure` in pyproject.toml names.
"""

import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pure_rooms() -> list[str]:
    """Return the pure rooms' module names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return next(contract["source_modules"] for contract in contracts if contract.get("id") == "pure")


def main() -> int:
    """Return pytest's exit code."""
    rooms = [f"--cov={room}" for room in pure_rooms()]
    return int(pytest.main(["tests/unit", "-q", *rooms, "--cov-report=term-missing:skip-covered", "--cov-fail-under=100"]))


if __name__ == "__main__":
    sys.exit(main())
