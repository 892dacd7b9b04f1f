"""Runs what benches are made of: parts, of which one that fails is said, and rounds on each broker in turn."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from inferq.errors import OperatorError, first_line, first_of

Say = Callable[[str], None]
Found = TypeVar("Found")
FoundOut = TypeVar("FoundOut", covariant=True)
Bench = TypeVar("Bench")


class OneRound(Protocol[FoundOut]):
    """Runs one round; the order of its sides is turned when it is told so."""

    async def __call__(
        self, broker: str, *, seconds: float, warm_s: float, turned: bool, say: Say
    ) -> FoundOut: ...


async def run_parts(
    bench: Bench, parts: Mapping[str, Callable[[Bench], Awaitable[None]]], wanted: Collection[str], say: Say
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
