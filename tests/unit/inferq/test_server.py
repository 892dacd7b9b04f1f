"""What every server answers beside its own work."""

import asyncio

import httpx

from inferq.server import probe_app
from inferq.telemetry import Metrics
from tests.support import turns


class Counting(Metrics):
    """Counts how often it is asked for all."""

    renders = 0

    def render(self) -> bytes:
        """Return the exposition."""
        self.renders += 1
        return super().render()


async def test_a_crowd_gets_one_exposition_and_the_next_a_new_one() -> None:
    """One for all who ask in one turn of the loop; who asks in a later one, as after any answer, gets a new one."""
    metrics = Counting()
    counter = metrics.counter("looks", "Looks")
    app = probe_app(metrics, dict)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        crowd = await asyncio.gather(*(client.get("/metrics") for _ in range(50)))
        assert {reply.status_code for reply in crowd} == {200}
        assert metrics.renders == 1
        for looks in (1, 2):
            # No socket is between, so nothing else would end the turn.
            await turns(1)
            counter.inc()
            assert f"inferq_looks_total {looks}.0" in (await client.get("/metrics")).text
        assert metrics.renders == 3
