"""What a benchmark is asked for: configurations become settings, loads become rates, and wrong ones are named."""

import pytest

from inferq.errors import OperatorError
from loadgen.reports.arms import arm, arms, loads, turned


@pytest.mark.parametrize(
    ("text", "policy", "size", "window_ms", "slo_ms"),
    [
        ("1:0", "greedy", 1, 50, 200),
        ("16:0", "greedy", 16, 50, 200),
        ("16:50", "fixed", 16, 50, 200),
        ("8:12", "fixed", 8, 12, 200),
        ("slo", "slo", 16, 50, 200),
        ("slo:80", "slo", 16, 50, 80),
    ],
)
def test_a_configuration_becomes_settings(
    text: str, policy: str, size: int, window_ms: float, slo_ms: float
) -> None:
    """Size and window, no window, or a budget."""
    settings = arm(text).settings
    assert arm(text).label == text
    assert (settings.batch_policy, settings.max_batch_size) == (policy, size)
    assert (settings.max_wait_ms, settings.slo_ms) == (window_ms, slo_ms)


@pytest.mark.parametrize("text", ["", "16", "16:", ":50", "16:-1", "fixed:16", "slo:", "16:50:1", "1e3:0"])
def test_what_is_no_configuration_is_named_with_what_is_allowed(text: str) -> None:
    """One line."""
    with pytest.raises(OperatorError, match=r"is not allowed: it must be B:W .* or slo") as raised:
        arm(text)
    assert repr(text) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["0:50", "999999:0", "slo:0", "16:999999999"])
def test_what_the_settings_do_not_allow_is_named_with_their_own_words(text: str) -> None:
    """A batch of none, and so on."""
    with pytest.raises(OperatorError, match=f"configuration '{text}': --.* is not allowed"):
        arm(text)


@pytest.mark.parametrize("texts", [[], ["1:0"] * 2, [f"{number}:0" for number in range(1, 12)]])
def test_a_comparison_is_of_some_configurations_none_twice(texts: list[str]) -> None:
    """One to ten."""
    with pytest.raises(OperatorError, match="configuration"):
        arms(texts)
    assert [one.label for one in arms(["1:0", "slo"])] == ["1:0", "slo"]


def test_loads_are_rates_or_shares_of_what_is_done_one_by_one() -> None:
    """Both may be mixed."""
    rate, share = loads("150,188%")
    assert rate.at(80.0) == 150
    assert share.share == pytest.approx(1.88)
    assert share.at(80.0) == pytest.approx(150.4)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "abc", "60,", "1e9", "0%", "1001%", "%"])
def test_what_is_no_load_is_named_with_what_is_allowed(text: str) -> None:
    """Rates and shares have bounds."""
    with pytest.raises(OperatorError, match=r"load '.*' is not allowed: it must be jobs a second"):
        loads(text)


@pytest.mark.parametrize("text", ["60,60", ",".join(str(number) for number in range(1, 12))])
def test_loads_are_few_and_none_comes_twice(text: str) -> None:
    """A report has one section each."""
    with pytest.raises(OperatorError, match="10 at most, and none twice"):
        loads(text)


def test_the_order_of_configurations_is_turned_each_round() -> None:
    """Over the rounds each is first, and follows different ones."""
    given = arms(["1:0", "16:0", "slo", "8:0"])
    rounds = [[one.label for one in turned(given, number)] for number in range(4)]
    assert rounds == [
        ["1:0", "16:0", "slo", "8:0"],
        ["16:0", "1:0", "8:0", "slo"],
        ["slo", "8:0", "1:0", "16:0"],
        ["8:0", "slo", "16:0", "1:0"],
    ]
