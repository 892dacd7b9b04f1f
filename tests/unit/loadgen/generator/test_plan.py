"""What a plan comes to, and what is refused."""

import math

import msgspec
import pytest

from inferq.errors import OperatorError
from loadgen import schedules
from loadgen.generator import plan as plans
from loadgen.generator import requests as made
from loadgen.generator.plan import Inputs, Kind, Plan, Schedule, check, due_s, loopback, same_host, texts_of
from loadgen.generator.requests import requests, submits

SCHEDULES = {
    "constant": Schedule(kind="constant", rate=50, seconds=2),
    "poisson": Schedule(kind="poisson", rate=50, seconds=2),
    "on_off": Schedule(kind="on_off", rate=100, seconds=2, on_s=0.5, off_s=0.5),
    "ramp": Schedule(kind="ramp", rate=0, to_rate=100, seconds=2),
    "trace": Schedule(kind="trace", rate=0, seconds=2, times=(5.0, 5.5, 6.0, 9.0)),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_equal_seeds_make_equal_loads(kind: Kind) -> None:
    """Due times and requests, byte for byte, after a journey as JSON too; they ascend and end in time."""
    one = Plan(schedule=SCHEDULES[kind], seed=7, deadline_ms=500)
    other = msgspec.json.decode(msgspec.json.encode(one), type=Plan)
    due = due_s(one.schedule, one.seed)
    assert due == due_s(other.schedule, other.seed)
    assert due == sorted(due)
    assert 0 <= due[0] <= due[-1] < 2
    ours, again = requests(one, len(due)), requests(other, len(due))
    assert len(ours) == len(due)
    assert [ours[number] for number in range(len(ours))] == [again[number] for number in range(len(again))]


def test_another_seed_makes_another_load() -> None:
    """Its times and its texts."""
    assert due_s(SCHEDULES["poisson"], 1) != due_s(SCHEDULES["poisson"], 2)
    assert texts_of(Inputs(), 10, 1) != texts_of(Inputs(), 10, 2)


def test_a_trace_begins_at_once_and_can_be_scaled() -> None:
    """With a rate its times are stretched, without one they are as recorded."""
    assert due_s(SCHEDULES["trace"], 0) == [0.0, 0.5, 1.0]
    scaled = msgspec.structs.replace(SCHEDULES["trace"], rate=100.0)
    assert len(due_s(scaled, 0)) == 4


def test_texts_are_unique_unless_they_are_to_repeat() -> None:
    """Given ones that run out come again with a number; a number of distinct ones is kept to."""
    assert texts_of(Inputs(texts=("a", "b", "a")), 5, 0) == ["a", "b", "a 1", "b 1", "a 2"]
    assert len(set(texts_of(Inputs(), 5_000, 0))) == 5_000
    assert len(set(texts_of(Inputs(distinct=5, exponent=0.0), 500, 0))) == 5


def test_too_many_texts_are_refused() -> None:
    """One more than may be."""
    with pytest.raises(OperatorError, match="100,000"):
        texts_of(Inputs(texts=("a",) * (plans.MOST_TEXTS + 1)), 1, 0)


def test_a_request_is_whole() -> None:
    """Head, key, length and body; the host is what the URL says, without a user; a deadline goes along."""
    plan = Plan(
        url="http://u@h:1", path="/x", key="K", inputs=Inputs(texts=("é",)), deadline_ms=5, connections=1
    )
    body = '{"text":"é","deadline_ms":5}'.encode()
    wanted = (
        b"POST /x HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer K\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert requests(plan, 1)[0] == wanted
    assert list(submits(plan, ["é"])) == [wanted]
    assert b"Authorization" not in requests(Plan(), 1)[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"url": "https://127.0.0.1"}, "http://HOST:PORT"),
        ({"url": "127.0.0.1:8080"}, "http://HOST:PORT"),
        ({"path": "v1"}, "path"),
        ({"path": "/a b"}, "path"),
        ({"path": "/a\r\nX: y"}, "path"),
        ({"connections": 0}, "connections"),
        ({"connections": 4_097}, "connections"),
        ({"url": "http://127.0.0.1:99999"}, "http://HOST:PORT"),
        ({"url": "http://127.0.0.1:0"}, "http://HOST:PORT"),
        ({"url": "http://[::1"}, "http://HOST:PORT"),
        ({"inputs": Inputs(distinct=-1)}, "distinct"),
        ({"inputs": Inputs(distinct=100_001)}, "distinct"),
        ({"warm_s": -1.0}, "warm-up"),
        ({"warm_s": 30.0}, "warm-up"),
        ({"patience_s": math.nan}, "patience"),
        ({"patience_s": 3_601.0}, "patience"),
        ({"budget_ms": 0.0}, "budget"),
        ({"deadline_ms": 0}, "deadline"),
        ({"schedule": Schedule(seconds=0)}, "seconds"),
        ({"schedule": Schedule(seconds=86_401)}, "86400"),
        ({"schedule": Schedule(rate=math.nan)}, "^rate"),
        ({"schedule": Schedule(to_rate=math.inf)}, "to_rate"),
        ({"schedule": Schedule(on_s=-1)}, "on_s"),
        ({"schedule": Schedule(times=(math.nan,))}, "times"),
    ],
)
def test_what_a_plan_may_not_say(changes: dict[str, object], says: str) -> None:
    """The error names the field."""
    check(Plan())
    with pytest.raises(OperatorError, match=says):
        check(msgspec.structs.replace(Plan(), **changes))


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost", True),
        ("http://[::1]:8080", True),
        ("http://10.0.0.1", False),
        ("http://example.com", False),
        ("8080", False),
    ],
)
def test_what_is_this_host(url: str, *, here: bool) -> None:
    """Loopback addresses and localhost; a name that only may be is not."""
    assert loopback(url) is here


def test_there_are_as_many_texts_as_drawn_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on what is expected is passed by half of the draws."""
    monkeypatch.setattr(schedules, "MOST_REQUESTS", 100)
    drawn = (len(due_s(Schedule(kind="poisson", rate=10.0, seconds=10.0), seed)) for seed in range(20))
    most = max(drawn)
    assert most > 100
    assert len(texts_of(Inputs(), most, 0)) == most


def test_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together, since they are held for the whole run."""
    monkeypatch.setattr(made, "MOST_HELD_BYTES", 100)
    assert len(requests(Plan(inputs=Inputs(texts=("x" * 30,))), 2)) == 2
    with pytest.raises(OperatorError, match="100 bytes"):
        requests(Plan(inputs=Inputs(texts=("x" * 30,))), 3)


@pytest.mark.parametrize(
    ("target", "stream", "same"),
    [
        ("http://127.0.0.1:1", "ws://localhost:2/ws", True),
        ("http://api.example", "ws://API.example:81", True),
        ("http://api.example", "ws://127.0.0.1", False),
        ("http://127.0.0.1", "ws://api.example", False),
        ("http://127.0.0.1", "", False),
        ("", "", False),
    ],
)
def test_what_is_one_host(target: str, stream: str, *, same: bool) -> None:
    """All names of this host are one; otherwise by name."""
    assert same_host(target, stream) is same
