"""Submits at full speed while the servers and the ingress are killed: what was answered with 202 is done in the end."""

from collections.abc import Sequence

import pytest

from loadgen.deployment import deployed
from loadgen.killing import killed

SUBMITS = 3_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("broker", "victims"),
    [
        pytest.param("streams", ("ingress", "valkey"), id="streams"),
        pytest.param("rabbitmq", ("rabbitmq", "ingress"), id="rabbitmq"),
    ],
)
async def test_no_202_is_lost(broker: str, victims: Sequence[str], request: pytest.FixtureRequest) -> None:
    """Of 3,000 submits with 64 in flight and two kills, each that got a 202 has a record, and it is done."""
    if broker == "rabbitmq":
        request.getfixturevalue("rabbitmq_installed")
    said: list[str] = []
    async with deployed(broker, model="simulated:1,0.2", queue_limit=str(SUBMITS)) as deployment:
        found = await killed(deployment, victims, submits=SUBMITS, within_s=90, seed=4, say=said.append)
    assert found.kills == len(victims), said
    assert found.barrage.answered == SUBMITS
    # Most pass; refusals come while something is away, and say when to come back.
    assert len(found.barrage.accepted) > SUBMITS / 2
    assert found.barrage.refused.total() > 0
    assert found.barrage.bare == 0
    assert found.fates == {"done": len(found.barrage.accepted)}
