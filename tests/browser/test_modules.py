"""The rules of the pages, which need no page: run by the Node that comes with the browser's driver."""

import subprocess
from pathlib import Path

from playwright._impl._driver import compute_driver_executable

MODULES = Path(__file__).parent / "modules"


def test_the_rules_of_the_pages_hold() -> None:
    """All tests of the pure modules pass, and there are some."""
    files = sorted(map(str, MODULES.glob("*.test.mjs")))
    assert len(files) > 3
    ended = subprocess.run(
        [compute_driver_executable()[0], "--test", "--test-reporter=tap", *files],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "# fail 0" in ended.stdout
