"""A job that ends between its submit and the moment when somebody waits for it: is its end ever missed?"""

from typing import Final

from loadgen.childwork import ask
from loadgen.deployment import deployed
from loadgen.figures import Figure, equal
from loadgen.parts import Say
from loadgen.racers import WAYS, Race, Raced

# A batch takes about as long as the latest of those who come to wait.
MODEL: Final = "simulated:0.5,0.05"
# For each race, which takes some milliseconds.
SLACK_S: Final = 60.0
MOST_S: Final = 0.1


async def figures(broker: str, *, times: int, say: Say) -> list[Figure]:
    """Race so often by each way."""
    found: list[Figure] = []
    async with deployed(broker, model=MODEL, batch_policy="greedy") as deployment:
        for way in WAYS:
            order = Race(api=deployment.url, url=deployment.settings.stream_url, way=way, times=times)
            raced = await ask("loadgen.racers", order, Raced, within_s=SLACK_S + times * MOST_S)
            say(f"  {broker}, {way}: {raced}")
            where = f"{times} jobs that end while somebody comes, {way}, {broker}"
            found += [
                equal(f"{where}, missed", raced.missed, 0, "jobs"),
                equal(f"{where}, refused", sum(raced.refused.values()), 0, "jobs"),
                Figure(name=f"{where}, ended before they were asked for", value=raced.before, unit="jobs"),
            ]
    return found
