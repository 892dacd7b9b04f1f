"""Settings that are given as the name of a file: what is taken, and what is said without the secret when it is not."""

from pathlib import Path

import pytest

from inferq.errors import OperatorError
from inferq.loading import MOST_BYTES, load_settings
from inferq.options import BY_FIELD
from inferq.settings import exposed, load

_URL = "amqp://user:S3CRET@broker:5672/"
_VARIABLES = ("INFERQ_REDIS_URL", "INFERQ_BROKER_URL", "INFERQ_WEBHOOK_SECRET")


def _file(folder: Path, content: bytes) -> str:
    file = folder / "secret"
    file.write_bytes(content)
    return f"@{file}"


def test_a_url_may_stand_in_a_file(tmp_path: Path) -> None:
    """Both URLs and the webhooks' secret are read from the file, the end of its line left out."""
    secret = "whsec_" + "A" * 32
    cases = {
        "INFERQ_REDIS_URL": ("redis://:S3CRET@redis:6379/0", "redis_url"),
        "INFERQ_BROKER_URL": (_URL, "broker_url"),
        "INFERQ_WEBHOOK_SECRET": (secret, "webhook_secret"),
    }
    for variable, (value, field) in cases.items():
        settings, origins = load_settings({variable: _file(tmp_path, value.encode() + b"\n")})
        assert getattr(settings, field) == value
        assert origins[field] == "environment"


def test_a_flag_may_name_a_file_and_is_no_exposed_secret(tmp_path: Path) -> None:
    """The name of a file may be seen by everybody, so nobody is warned of it; of a URL with a password they are."""
    name = _file(tmp_path, _URL.encode())
    assert load_settings({}, {"broker_url": name})[0].broker_url == _URL
    assert exposed({"broker_url": name}) == []
    assert len(exposed({"broker_url": _URL})) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file holds 0 lines: write one"),
        (b" \n", "the file holds 0 lines: write one"),
        (_URL.encode() * 2 + b"\nS3CRET", "the file holds 2 lines: write one"),
        (b"\xff\xfe", "the file is not UTF-8: write it as plain text"),
        (b"S3CRET" * MOST_BYTES, f"the file is too large: {MOST_BYTES} bytes are allowed"),
    ],
)
@pytest.mark.parametrize("variable", _VARIABLES)
def test_a_file_that_will_not_do_stops_the_start(
    variable: str, content: bytes, said: str, tmp_path: Path
) -> None:
    """The one line names the variable, the file and what is wrong with it, and nothing of what it holds."""
    name = _file(tmp_path, content)
    with pytest.raises(OperatorError) as caught:
        load_settings({variable: name})
    assert str(caught.value) == f"{variable}={name!r}: {said}"


def test_a_wrong_value_in_a_file_is_told_without_the_secret(tmp_path: Path) -> None:
    """The line names the variable and the file, what is allowed, and of the URL what is no secret."""
    name = _file(tmp_path, b"http://user:S3CRET@broker:5672/")
    with pytest.raises(OperatorError) as caught:
        load_settings({"INFERQ_BROKER_URL": name})
    said = str(caught.value)
    assert said.startswith(
        f"INFERQ_BROKER_URL={name!r} holds 'http://***@broker:5672/', which is not allowed: it must"
    )
    assert "S3CRET" not in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Who mistyped its name reads that name."""
    with pytest.raises(
        OperatorError, match=r"missing': the file cannot be read \(No such file or directory\)"
    ):
        load_settings({"INFERQ_REDIS_URL": f"@{tmp_path / 'missing'}"})


def test_settings_alone_read_no_file(tmp_path: Path) -> None:
    """Without a reader, and for a setting that is no secret, the name of a file is refused."""
    name = _file(tmp_path, _URL.encode())
    with pytest.raises(OperatorError, match="is not read here"):
        load({"INFERQ_BROKER_URL": name})
    with pytest.raises(OperatorError, match="is not allowed"):
        load_settings({"INFERQ_MAX_BATCH_SIZE": _file(tmp_path, b"4")})


@pytest.mark.parametrize("text", ["@user:S3CRET@host", "@S3CRET@host/path", "@x?S3CRET"])
def test_what_a_slip_made_of_a_secret_is_no_file(text: str) -> None:
    """Only what cannot be a part of a URL with a password is shown."""
    assert "S3CRET" not in BY_FIELD["redis_url"].shown(text)
