"""The secret that `inferq up` keeps."""

import stat
from pathlib import Path

import pytest

from inferq.errors import OperatorError
from inferq.webhooks.secretkeeper import FILE_NAME, kept_secret
from inferq.webhooks.signing import check_secret


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    """It stays over starts, for its owner alone; another folder has another."""
    secret = kept_secret(tmp_path)
    assert check_secret(secret) == secret != ""
    assert kept_secret(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]
    (tmp_path / "other").mkdir()
    assert kept_secret(tmp_path / "other") != secret


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    """As if it were not there."""
    (tmp_path / FILE_NAME).write_text("")
    assert kept_secret(tmp_path)


@pytest.mark.parametrize("content", [b"S3CRET", b"\xff"])
def test_what_is_no_secret_stops_the_start(tmp_path: Path, content: bytes) -> None:
    """Replaced in silence, every receiver would refuse what it is sent; the text is not shown."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(
        OperatorError, match=r"webhook.secret cannot be used \(.*\): correct it, or remove it"
    ) as caught:
        kept_secret(tmp_path)
    assert "S3CRET" not in str(caught.value)
