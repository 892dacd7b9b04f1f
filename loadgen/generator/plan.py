"""What a run of the generator sends: when, what, where, and how the jobs are followed. Pure.

A plan holds all that decides a load: equal plans give equal schedules and equal bodies. It travels as JSON to the
process that sends it, and stands in each report, so that a run can be made again.
"""

import ipaddress
import math
from collections.abc import Iterator
from itertools import count, islice
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from inferq.errors import OperatorError
from loadgen import schedules
from loadgen.inputs import MOST_DISTINCT, repeating
from loadgen.texts import dealt

MOST_TEXTS: Final = 100_000
MOST_CONNECTIONS: Final = 4_096
MOST_PATIENCE_S: Final = 3_600.0
MOST_DEADLINE_MS: Final = 86_400_000
DEFAULT_URL: Final = "http://127.0.0.1:8080"

Kind = Literal["constant", "poisson", "on_off", "ramp", "trace"]
Follow = Literal["nothing", "records", "push"]
"""How jobs are followed after their 202: not at all, by reading their records at the end, or by pushed frames."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When requests are due: ``rate`` a second for ``seconds``.

    ``on_s`` and ``off_s`` are of kind ``on_off``, ``to_rate`` of ``ramp``, ``times`` (s) of ``trace``, which keeps its
    own rate where ``rate`` is 0.
    """

    kind: Kind = "constant"
    rate: float = 150.0
    seconds: float = 30.0
    on_s: float = 1.0
    off_s: float = 1.0
    to_rate: float = 0.0
    times: tuple[float, ...] = ()


class Inputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent: ``texts``, or the bundled snippets where there are none.

    With ``distinct`` 0 no two are alike (a text that comes again carries a number); otherwise so many of them come
    again and again by Zipf's law with ``exponent``.
    """

    texts: tuple[str, ...] = ()
    distinct: int = 0
    exponent: float = 1.0


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run; `due_s` and `texts_of` say what it comes to.

    Requests that are due before ``warm_s`` (s) are sent and not counted. ``budget_ms`` is what goodput counts by, from
    when a request was due to the pushed frame, or to the stored result where records are followed. ``expect`` is the
    status of a request that was taken: a server that answers with the result itself gives another one than ours.
    ``pids`` are processes whose CPU is read, by name.
    """

    url: str = DEFAULT_URL
    path: str = "/v1/infer"
    key: str = ""
    schedule: Schedule = Schedule()
    inputs: Inputs = Inputs()
    seed: int = 0
    warm_s: float = 0.0
    follow: Follow = "push"
    expect: int = 202
    budget_ms: float = 200.0
    deadline_ms: int | None = None
    connections: int = 64
    patience_s: float = 60.0
    pids: dict[str, int] = {}


def due_s(schedule: Schedule, seed: int) -> list[float]:
    """Return when requests are due, in seconds from the start, ascending.

    Raises `OperatorError` for what is out of bounds.
    """
    match schedule.kind:
        case "constant":
            return schedules.steady(schedule.rate, schedule.seconds)
        case "poisson":
            return schedules.poisson(schedule.rate, schedule.seconds, seed=seed)
        case "on_off":
            return schedules.on_off(
                schedule.rate, schedule.seconds, on_s=schedule.on_s, off_s=schedule.off_s, seed=seed
            )
        case "ramp":
            return schedules.ramp(schedule.rate, schedule.to_rate, schedule.seconds, seed=seed)
        case _:
            return schedules.trace(schedule.times, schedule.seconds, rate=schedule.rate or None)


def texts_of(inputs: Inputs, wanted: int, seed: int) -> list[str]:
    """Return so many texts; equal seeds, equal texts. Raises `OperatorError` for what is out of bounds."""
    return list(texts(inputs, wanted, seed))


def texts(inputs: Inputs, wanted: int, seed: int) -> Iterator[str]:
    """Return the same one by one, since a million of them at once take hundreds of megabytes."""
    if len(inputs.texts) > MOST_TEXTS:
        raise OperatorError(f"texts may be {MOST_TEXTS:,} at most")
    if inputs.distinct:
        known = list(islice(_unlike(inputs, seed), inputs.distinct))
        return repeating(known, wanted, exponent=inputs.exponent, seed=seed)
    return islice(_unlike(inputs, seed), wanted)


def _unlike(inputs: Inputs, seed: int) -> Iterator[str]:
    """Yield texts without end, no two alike."""
    if not inputs.texts:
        # Of drawn times there may be more than the bound, which is on what is expected.
        return dealt(2 * schedules.MOST_REQUESTS, seed=seed)
    known = dict.fromkeys(inputs.texts)
    return (f"{text} {again}" if again else text for again in count() for text in known)


def check(plan: Plan) -> None:
    """Make sure that a plan can be begun; its schedule and texts are looked at as they are made.

    Raises:
        OperatorError: what is wrong, by its name.
    """
    for holds, wrong in _rules(plan):
        if not holds:
            raise OperatorError(wrong)


def _rules(plan: Plan) -> Iterator[tuple[bool, str]]:
    path, schedule = plan.path, plan.schedule
    yield _http(plan.url), "the URL must be of the form http://HOST:PORT"
    visible = path.isascii() and path.isprintable() and " " not in path
    yield (
        path.startswith("/") and visible,
        "the path must begin with a slash and hold visible ASCII characters alone",
    )
    yield 1 <= plan.connections <= MOST_CONNECTIONS, f"connections must be from 1 to {MOST_CONNECTIONS:,}"
    yield (
        0 < schedule.seconds <= schedules.MOST_SECONDS,
        f"the seconds must be above 0, and {schedules.MOST_SECONDS:g} at most",
    )
    rates = {
        "rate": schedule.rate,
        "to_rate": schedule.to_rate,
        "on_s": schedule.on_s,
        "off_s": schedule.off_s,
    }
    for name, value in rates.items():
        yield 0 <= value < math.inf, f"{name} must be a finite number from 0 on"
    yield all(map(math.isfinite, schedule.times)), "the times of a trace must be finite"
    yield 0 <= plan.inputs.distinct <= MOST_DISTINCT, f"distinct texts must be from 0 to {MOST_DISTINCT:,}"
    yield 0 <= plan.warm_s < schedule.seconds, "the warm-up must be from 0 on, and shorter than the schedule"
    yield 0 <= plan.patience_s <= MOST_PATIENCE_S, f"the patience must be from 0 to {MOST_PATIENCE_S:g} s"
    yield 0 < plan.budget_ms < math.inf, "the budget must be above 0 ms"
    yield (
        plan.deadline_ms is None or 1 <= plan.deadline_ms <= MOST_DEADLINE_MS,
        f"a deadline must be from 1 to {MOST_DEADLINE_MS} ms",
    )


def _http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # A port that is none raises.
        return parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def same_host(url: str, other: str) -> bool:
    """Say whether two URLs are of one host; all names of this one are."""
    if loopback(url):
        return loopback(other)
    return urlsplit(url).hostname == urlsplit(other).hostname is not None


def loopback(url: str) -> bool:
    """Say whether a URL's host is this one."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
