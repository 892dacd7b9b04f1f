"""Which channels are needed, and when one is left."""

from hypothesis import given
from hypothesis import strategies as st

from inferq.channels import Channels


def test_a_channel_is_needed_while_anybody_uses_it() -> None:
    """Uses are counted, channel by channel."""
    channels = Channels(linger_s=5.0)
    for channel in ("a", "b", "a"):
        channels.use(channel)
    assert channels.needed == ["a", "b"]
    channels.drop("a")
    channels.drop("b")
    assert channels.needed == ["a"]


def test_one_that_nobody_uses_is_left_after_a_while() -> None:
    """The time counts from when that is first noticed; one that is used is never left."""
    channels = Channels(linger_s=5.0)
    channels.use("a")
    channels.use("b")
    channels.drop("b")
    assert channels.leave(["a", "b"], 100.0) == []
    assert channels.leave(["a", "b"], 104.9) == []
    assert channels.leave(["a", "b"], 105.0) == ["b"]


def test_who_comes_back_begins_the_time_anew() -> None:
    """Used meanwhile, a channel is idle only from the next end on."""
    channels = Channels(linger_s=5.0)
    channels.use("a")
    channels.drop("a")
    assert channels.leave(["a"], 100.0) == []
    channels.use("a")
    assert channels.leave(["a"], 105.0) == []
    channels.drop("a")
    assert channels.leave(["a"], 106.0) == []
    assert channels.leave(["a"], 110.9) == []
    assert channels.leave(["a"], 111.0) == ["a"]


def test_without_a_while_it_is_left_at_once() -> None:
    """At the first look; entered and idle once more, it is left once more."""
    channels = Channels(linger_s=0.0)
    assert channels.leave(["a"], 1.0) == ["a"]
    assert channels.leave(["a"], 2.0) == ["a"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 9))))
def test_what_is_used_is_needed_and_never_left(steps: list[tuple[str, bool, int]]) -> None:
    """However uses begin and end, a channel is needed exactly while it has one, and only then kept for sure."""
    channels, uses, now_s = Channels(linger_s=10.0), dict.fromkeys("abc", 0), 0.0
    for channel, begin, seconds in steps:
        now_s += seconds
        if begin:
            channels.use(channel)
            uses[channel] += 1
        elif uses[channel]:
            channels.drop(channel)
            uses[channel] -= 1
        used = {one for one, count in uses.items() if count}
        assert set(channels.needed) == used
        assert not used & set(channels.leave(list("abc"), now_s))
    assert set(channels.leave(list("abc"), now_s + 10) + channels.leave(list("abc"), now_s + 20)) == {
        one for one, count in uses.items() if not count
    }
