"""The folder in which several processes sum their metrics."""

import stat
from pathlib import Path

from inferq.summing import empty_folder


def test_what_an_earlier_run_counted_is_gone(tmp_path: Path) -> None:
    """Whatever was in the folder no longer counts, and it is its owner's alone."""
    folder = tmp_path / "state" / "counts"
    empty_folder(folder)
    (folder / "counter_1.db").write_bytes(b"old")
    empty_folder(folder)
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
