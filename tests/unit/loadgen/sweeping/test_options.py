"""What is read from the command line of a sweep, and how a report tells its command."""

import argparse
from pathlib import Path

import pytest

from inferq.errors import OperatorError
from loadgen.sweeping import cachecommand, caching, command, options
from loadgen.sweeping.levels import SHARES


def given(*words: str) -> argparse.Namespace:
    """Return the options of a sweep."""
    parser = argparse.ArgumentParser()
    command.add(parser)
    return parser.parse_args(words)


def test_without_levels_they_are_found() -> None:
    """Around a capacity, each as long as the knee needs."""
    order = command.ordered(given())
    assert (order.rates, order.concurrencies, order.shares, order.seconds) == ([], [], SHARES, 0)


def test_levels_are_taken_as_they_are_given() -> None:
    """As a list, as a spread, or in flight."""
    assert command.ordered(given("--levels", "20,10")).rates == [10, 20]
    assert command.ordered(given("--from", "10", "--to", "30", "--steps", "3")).rates == [10, 20, 30]
    assert len(command.ordered(given("--from", "10", "--to", "30")).rates) == command.DEFAULT_STEPS
    assert command.ordered(given("--concurrency", "4,1")).concurrencies == [1, 4]


def test_a_short_form_has_few_and_short_levels() -> None:
    """Unless their length is given."""
    order = command.ordered(given("--quick"))
    assert (order.shares, order.seconds, order.try_s) == (
        command.QUICK_SHARES,
        command.QUICK_S,
        command.QUICK_TRY_S,
    )
    assert command.ordered(given("--quick", "--seconds", "5")).seconds == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--levels", "10", "--from", "10"), "give --levels, or"),
        (("--levels", "10", "--concurrency", "1"), "give --levels, or"),
        (("--from", "10"), "--from and --to come together"),
        (("--steps", "3"), "--from and --to come together"),
        (("--from", "1", "--to", "2", "--steps", "0"), "--steps goes from 2"),
        (("--seconds", "0.5"), "--seconds 0.5"),
        (("--budget", "0"), "--budget 0"),
    ],
)
def test_what_cannot_be_swept_is_refused(words: tuple[str, ...], said: str) -> None:
    """With the option's name."""
    with pytest.raises(OperatorError, match=said):
        command.ordered(given(*words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batchers", "0"), "--batchers 0"),
        (("--config", "sixteen"), "configuration 'sixteen'"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(words: tuple[str, ...], said: str) -> None:
    """Before anything is started."""
    with pytest.raises(OperatorError, match=said):
        options.wanted(given(*words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--url", "http://127.0.0.1:1", "--model", "simulated:1,1", "--batchers", "2"),
            "leave out --model, --batchers",
        ),
        (("--url", "http://192.0.2.1:8080"), "--allow-remote"),
    ],
)
async def test_a_target_that_may_not_be_loaded_is_refused(words: tuple[str, ...], said: str) -> None:
    """Another host's, and one that is asked to be what it cannot be made."""
    with pytest.raises(OperatorError, match=said):
        async with options.target(given(*words)):
            pass


def test_a_report_tells_the_command_that_makes_it_again() -> None:
    """Defaults are left out, and so are a model's path and where the report went."""
    words = (
        "--model",
        "/models/of/mine/tiny-model",
        "--policy",
        "16:0",
        "--from",
        "5",
        "--to",
        "9.5",
        "--quick",
    )
    told = options.command("sweep", given(*words, "--out", "elsewhere"), command.add)
    assert told == "python -m loadgen sweep --model tiny-model --config 16:0 --from 5.0 --to 9.5 --quick"


def test_a_short_form_is_written_only_where_that_is_wanted() -> None:
    """In full, to the folder of all reports."""
    assert options.folder(given()) == options.FOLDER
    assert options.folder(given("--quick")) is None
    assert options.folder(given("--quick", "--out", "here")) == Path("here")


def test_a_report_does_not_go_to_what_is_no_folder(tmp_path: Path) -> None:
    """It is said before all work, and not after an hour of it."""
    assert options.folder(given("--out", str(tmp_path))) == tmp_path
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(OperatorError, match="taken is not a folder"):
        options.folder(given("--out", str(taken)))


@pytest.mark.parametrize("words", [("--distinct", "0"), ("--exponent", "-1"), ("--exponent", "nan")])
def test_inputs_of_a_cache_test_are_bounded(words: tuple[str, ...]) -> None:
    """By what Zipf's law is drawn for."""
    parser = argparse.ArgumentParser()
    cachecommand.add(parser)
    read = parser.parse_args(words)
    with pytest.raises(OperatorError, match="--distinct"):
        caching.Repeating(distinct=read.distinct, exponent=read.exponent).check()
