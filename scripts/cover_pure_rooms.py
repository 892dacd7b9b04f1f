"""Run the unit tests and demand that they alone cover the pure rooms to 100 %.

The rooms are those that the import-linter contract `pure` in pyproject.toml names.
"""

import sys
import tomllib
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent


def pure_rooms() -> list[str]:
    """Return the pure rooms' module names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return next(contract["source_modules"] for contract in contracts if contract.get("id") == "pure")


def main() -> int:
    """Return 0 when the tests pass and leave nothing uncovered."""
    # Named as files, so that a room which no test imports counts as uncovered instead of not at all.
    files = [str(ROOT / (room.replace(".", "/") + ".py")) for room in pure_rooms()]
    measured = coverage.Coverage(config_file=str(ROOT / "pyproject.toml"), data_file=None, include=files)
    measured.start()
    failed = pytest.main(["tests/unit", "-q"])
    measured.stop()
    if failed:
        return int(failed)
    percent = measured.report(morfs=files)
    if percent < 100:
        print(f"The unit tests cover {percent:.1f} % of the pure rooms; it must be 100 %.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
