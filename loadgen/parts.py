"""Runs what benches are made of: parts, of which one that fails is said, and rounds on each broker in turn."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from inferq.errors import OperatorError, first_line, first_of
from loadgen.figures import Figure

Say = Callable[[str], None]
Show = Callable[[list[Figure]], None]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often each part is run; what else there is to choose, each bench adds."""

    rounds: int


Found = TypeVar("Found")
FoundOut = TypeVar("FoundOut", covariant=True)
AnyEffort = TypeVar("AnyEffort", bound=Effort)
AnyBench = TypeVar("AnyBench")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a bench is asked for.

    ``size`` is full, quick or brief, which is to see that it works; ``rounds`` and ``seconds`` take the place of what
    that has. ``full_size`` is the folder of a full-size model, ``out`` where a part writes what it found as JSON.
    """

    brokers: Sequence[str]
    size: str
    say: Say
    show: Show
    rounds: int | None = None
    seconds: float | None = None
    full_size: str = ""
    out: Path | None = None

    def effort(self, by_size: Mapping[str, AnyEffort]) -> AnyEffort:
        """Return the effort of this size, with the rounds that were asked for."""
        chosen = by_size[self.size]
        return chosen if self.rounds is None else replace(chosen, rounds=self.rounds)


@dataclass(kw_only=True)
class Bench(Generic[AnyEffort]):
    """One run of a bench's parts: progress goes to ``say``, figures to ``show`` as soon as they are known."""

    brokers: Sequence[str]
    effort: AnyEffort
    say: Say
    show: Show


class OneRound(Protocol[FoundOut]):
    """Runs one round; the order of its sides is turned when it is told so."""

    async def __call__(
        self, broker: str, *, seconds: float, warm_s: float, turned: bool, say: Say
    ) -> FoundOut: ...


async def run_parts(
    bench: AnyBench,
    parts: Mapping[str, Callable[[AnyBench], Awaitable[None]]],
    wanted: Collection[str],
    say: Say,
) -> bool:
    """Run the wanted parts in their order; return whether all of them could be measured."""
    whole = True
    for name, part in parts.items():
        if name not in wanted:
            continue
        try:
            await part(bench)
        except (OSError, TimeoutError, OperatorError, ExceptionGroup) as error:
            say(f"{name} could not be measured: {first_line(first_of(error))}")
            whole = False
    return whole


async def rounds(
    what: str,
    one_round: OneRound[Found],
    brokers: Sequence[str],
    *,
    count: int,
    seconds: float,
    warm_s: float,
    say: Say,
) -> dict[str, list[Found]]:
    """Run each broker ``count`` times, in turn, the order of the sides turned each time."""
    found: dict[str, list[Found]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            say(f"{what}, round {number + 1} of {count}: {broker}")
            found[broker].append(
                await one_round(broker, seconds=seconds, warm_s=warm_s, turned=number % 2 == 1, say=say)
            )
    return found
