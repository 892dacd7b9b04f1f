"""Kills processes of a pipeline at drawn moments while submits are under way: is anything lost that was accepted?"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from loadgen.barrage import Barrage, fates
from loadgen.deployment import Deployment

IN_FLIGHT: Final = 64
LOOK_S: Final = 0.01
# A private RabbitMQ needs ten seconds to come back, and what was accepted before has to be done.
BACK_WITHIN_S: Final = 60.0
END_WITHIN_S: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class Killed:
    """What came of it; ``fates`` counts the accepted jobs by how they ended."""

    barrage: Barrage
    kills: int
    fates: Counter[str]

    @property
    def lost(self) -> int:
        """How many accepted jobs are not done."""
        return len(self.barrage.accepted) - self.fates["done"]


async def killed(
    deployment: Deployment,
    victims: Sequence[str],
    *,
    submits: int,
    within_s: float,
    seed: int,
    say: Callable[[str], None],
) -> Killed:
    """Submit, kill each victim in turn, spread over the submits, and ask for every accepted job in the end.

    Raises:
        ConnectionError: a victim did not come back, or the submits did not end in time.
    """
    drawn = random.Random(seed)
    barrage = Barrage(url=deployment.url, in_flight=IN_FLIGHT)
    texts = [f"text number {number}" for number in range(submits)]
    submitting = asyncio.create_task(barrage.run(texts, within_s=within_s))
    kills = 0
    try:
        for victim, moment in zip(victims, moments(submits, len(victims), drawn), strict=True):
            await _holds(partial(_reached, barrage, submitting, moment), within_s)
            if submitting.done():
                break
            await _kill(deployment, victim, barrage, submitting)
            kills += 1
            say(f"killed {victim} after {moment} submits; {len(barrage.accepted)} are accepted so far")
        await submitting
    except TimeoutError:
        raise ConnectionError(f"{submits} submits did not end within {within_s:g} s") from None
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
    found = await fates(deployment.url, barrage.accepted, within_s=END_WITHIN_S)
    return Killed(barrage=barrage, kills=kills, fates=found)


def moments(submits: int, kills: int, drawn: random.Random) -> list[int]:
    """Draw after how many submits to kill: one moment in each of as many equal parts, none at the very ends."""
    first, last = submits // 20, submits - submits // 5
    part = (last - first) / max(1, kills)
    return [first + int((number + drawn.random()) * part) for number in range(kills)]


async def _kill(
    deployment: Deployment, victim: str, barrage: Barrage, submitting: asyncio.Task[None]
) -> None:
    """Kill a process; return when there is another one and jobs are accepted again."""
    pid = deployment.pid(victim)
    os.kill(pid, signal.SIGKILL)
    # Answers that were on their way may still come.
    enough = len(barrage.accepted) + IN_FLIGHT

    def back() -> bool:
        return submitting.done() or (deployment.pid(victim) != pid and len(barrage.accepted) > enough)

    if not await _holds(back, BACK_WITHIN_S):
        raise ConnectionError(f"{victim} was killed, and after {BACK_WITHIN_S:g} s no job is accepted")


def _reached(barrage: Barrage, submitting: asyncio.Task[None], answers: int) -> bool:
    return submitting.done() or barrage.answered >= answers


async def _holds(condition: Callable[[], bool], within_s: float) -> bool:
    """Wait for a condition; False when the time is over before."""
    over_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > over_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True
