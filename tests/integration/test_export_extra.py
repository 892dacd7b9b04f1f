"""What exporting says where torch is not installed."""

from pathlib import Path

import pytest

from inferq.errors import OperatorError
from inferq.export import export, random_distilbert


def test_without_torch_exporting_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install, and nothing is written."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OperatorError, match=r"-m pip install .*torch"):
        export("owner/model", tmp_path / "made")
    with pytest.raises(OperatorError, match=r"-m pip install .*torch"):
        random_distilbert(tmp_path / "random-distilbert")
    assert list(tmp_path.iterdir()) == []
