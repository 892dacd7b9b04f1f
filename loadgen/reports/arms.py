"""What a benchmark compares, as it is asked for on the command line: configurations and loads. Pure.

1. ``B:W`` is batches of at most ``B`` jobs and a window of ``W`` ms; no window is `greedy`. ``slo`` and ``slo:T`` steer
   for ``T`` ms.
2. A load is jobs a second, or a share of what is done one by one (``75%``), which is then measured first.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.errors import OperatorError
from inferq.settings import Settings, load

ALLOWED_ARM: Final = (
    "B:W (most jobs in a batch, window in ms; 16:0 is greedy, 1:0 one by one) or slo[:T] (budget in ms)"
)
MOST_ARMS: Final = 10
MOST_LOADS: Final = 10
MOST_RATE: Final = 100_000.0
MOST_SHARE: Final = 10.0
_ARM: Final = re.compile(r"(?P<size>\d{1,9}):(?P<window>\d{1,9})|slo(?::(?P<slo>\d{1,9}))?")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One configuration: its label, and the settings by field that make it."""

    label: str
    changes: Mapping[str, str]

    @property
    def settings(self) -> Settings:
        """The settings with all else at its default."""
        return load({}, self.changes)[0]


@dataclass(frozen=True, kw_only=True)
class Load:
    """An offered load as it was named: ``rate`` in jobs a second, or ``share`` (1: all) of what is done one by one."""

    name: str
    rate: float | None = None
    share: float | None = None

    def at(self, capacity: float) -> float:
        """Return the jobs a second where ``capacity`` is what is done one by one."""
        return self.rate if self.rate is not None else (self.share or 0.0) * capacity


def arm(text: str) -> Arm:
    """Read a configuration. Raises `OperatorError` that names it and what is allowed."""
    found = _ARM.fullmatch(text)
    if found is None:
        raise OperatorError(f"configuration {text!r} is not allowed: it must be {ALLOWED_ARM}")
    if found["size"] is None:
        changes = {"batch_policy": "slo"} | ({"slo_ms": found["slo"]} if found["slo"] else {})
    elif float(found["window"]):
        changes = {"batch_policy": "fixed", "max_batch_size": found["size"], "max_wait_ms": found["window"]}
    else:
        changes = {"batch_policy": "greedy", "max_batch_size": found["size"]}
    try:
        load({}, changes)
    except OperatorError as error:
        raise OperatorError(f"configuration {text!r}: {error}") from None
    return Arm(label=text, changes=changes)


def arms(texts: Sequence[str]) -> list[Arm]:
    """Read the configurations of a comparison. Raises `OperatorError` for none, too many, or one that comes twice."""
    if not 1 <= len(texts) <= MOST_ARMS:
        raise OperatorError(f"1 to {MOST_ARMS} configurations are compared; {len(texts)} were given")
    if len(set(texts)) < len(texts):
        raise OperatorError("a configuration was given twice")
    return [arm(text) for text in texts]


def loads(text: str) -> list[Load]:
    """Read loads, separated by commas. Raises `OperatorError` that names the wrong one and what is allowed."""
    parts = [part.strip() for part in text.split(",")]
    found = [_load(part) for part in parts[: MOST_LOADS + 1]]
    if len(found) > MOST_LOADS or len({(one.rate, one.share) for one in found}) < len(found):
        raise OperatorError(f"loads {text!r}: {MOST_LOADS} at most, and none twice")
    return found


def turned(given: Sequence[Arm], number: int) -> list[Arm]:
    """Return the order of a round (from 0): each round another is the first, and every other round goes backwards.

    So none always runs after the same one.
    """
    step = -1 if number % 2 else 1
    return [given[(number + step * place) % len(given)] for place in range(len(given))]


def _load(text: str) -> Load:
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    shared = number != text
    most = 100 * MOST_SHARE if shared else MOST_RATE
    if not 0 < value <= most:
        raise OperatorError(
            f"load {text!r} is not allowed: it must be jobs a second (150), up to {MOST_RATE:g},"
            f" or a share of what is done one by one (75%), up to {100 * MOST_SHARE:g}%"
        )
    return Load(name=text, share=value / 100) if shared else Load(name=text, rate=value)
