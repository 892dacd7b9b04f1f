"""The flags of a service."""

import re

import pytest

from inferq.commandline import parse_flags
from inferq.errors import OperatorError
from inferq.options import OPTIONS
from inferq.settings import load


def parse(*argv: str) -> dict[str, str]:
    """Parse a command line of a service."""
    return parse_flags("python -m ingress", "takes jobs", argv)


def test_what_is_not_given_is_not_in_the_result() -> None:
    """The environment and the defaults are left to the settings."""
    assert parse() == {}
    assert parse("--max-batch-size", "8", "--model=simulated:1,1") == {
        "max_batch_size": "8",
        "model": "simulated:1,1",
    }


def test_a_switch_takes_no_value() -> None:
    """It stands alone, and has a twin that turns it off."""
    assert parse("--allow-open") == {"allow_open": "1"}
    assert parse("--no-allow-open") == {"allow_open": "0"}


def test_every_setting_has_a_flag_that_its_default_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names each flag and its variable, and a default given as a flag changes nothing."""
    argv = [f"{option.flag}={option.default}" for option in OPTIONS if option.field != "allow_open"]
    settings, origins = load({}, parse(*argv))
    assert settings == load({})[0]
    assert set(origins.values()) == {"flag", "default"}
    with pytest.raises(SystemExit) as ended:
        parse("--help")
    assert ended.value.code == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for option in OPTIONS:
        assert option.flag in shown
        assert option.variable in shown


@pytest.mark.parametrize(
    ("argv", "refusal"),
    [
        (["--max-batch", "8"], "unknown flag --max-batch"),
        (["--redis=redis://u:secret@h"], "unknown flag --redis"),
        (["redis://u:secret@h"], "everything is given by flags"),
        (["--host"], "argument --host: expected one argument"),
    ],
)
def test_a_slip_is_one_line_without_values(argv: list[str], refusal: str) -> None:
    """An unknown or shortened flag is named, what was meant for it is not: it may be a password."""
    with pytest.raises(OperatorError) as error:
        parse(*argv)
    assert str(error.value) == f"{refusal}; python -m ingress --help lists the flags"
