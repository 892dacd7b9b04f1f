"""The figures of admission, part by part; a part that fails is said and the others go on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.errors import OperatorError, first_line
from loadgen import acceptrate
from loadgen.figures import Figure


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often and how long each part is run, in seconds a run."""

    rounds: int
    warm_s: float
    rate_s: float


FULL: Final = Effort(rounds=5, warm_s=2.0, rate_s=6.0)
QUICK: Final = Effort(rounds=2, warm_s=1.0, rate_s=3.0)


@dataclass(kw_only=True)
class Bench:
    """One run: progress to ``say``, figures to ``show`` as soon as they are known."""

    brokers: Sequence[str]
    effort: Effort
    say: Callable[[str], None]
    show: Callable[[list[Figure]], None]

    async def run(self, parts: Sequence[str]) -> bool:
        """Run parts in the order of `PARTS`; return whether all of them could be measured."""
        whole = True
        for name, part in PARTS.items():
            if name not in parts:
                continue
            try:
                await part(self)
            except (OSError, TimeoutError, OperatorError, ExceptionGroup) as error:
                self.say(f"{name} could not be measured: {_reason(error)}")
                whole = False
        return whole

    async def accepted(self) -> None:
        """Accepted requests a second beside a bare and a stock app."""
        found = await acceptrate.rounds(
            self.brokers,
            count=self.effort.rounds,
            seconds=self.effort.rate_s,
            warm_s=self.effort.warm_s,
            say=self.say,
        )
        for broker, runs in found.items():
            self.show(acceptrate.judged(broker, runs))


PARTS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "accepted": Bench.accepted,
}


def _reason(error: BaseException) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return first_line(error)
