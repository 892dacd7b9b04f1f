"""Pipelines through `inferq up`, one shared by all tests and as many others as a test asks for."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferq.cli.leftovers import remove_namespace
from inferq.settings import load
from tests.acceptance.running import Up
from tests.conftest import run_apart

# Fast, with answers that depend on the text alone, and it can be told to fail.
SIMULATED = "simulated:1,0.2,faults"

StartPipeline = Callable[..., Up]


def settings_for(broker: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """Return settings that put the queue on a broker: streams, rabbitmq (shared by the tests), or private.

    A private one takes some seconds more; it is for tests in which RabbitMQ itself is started, stopped or killed.
    """
    if broker == "rabbitmq":
        url: str = request.getfixturevalue("rabbit_url")
        return {"broker_url": url, "namespace": f"t{secrets.token_hex(4)}-"}
    if broker == "private":
        request.getfixturevalue("rabbitmq_installed")
        return {"broker_url": "rabbitmq"}
    return {}


@pytest.fixture(autouse=True)
def shared_node(request: pytest.FixtureRequest) -> None:
    """Start the shared RabbitMQ for a test on it before the test's own loop runs, in which that cannot be done."""
    found = getattr(request.node, "callspec", None)
    if found is not None and "rabbitmq" in found.params.values():
        request.getfixturevalue("rabbit_url")


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The shared pipeline: Streams, a simulated model that can be told to fail."""
    up = Up(tmp_path_factory.mktemp("pipeline"), {"model": SIMULATED})
    up.start()
    try:
        yield up
    finally:
        up.stop()


@pytest.fixture(scope="session")
def rabbit_pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The same on RabbitMQ."""
    settings = settings_for("rabbitmq", request)
    up = Up(tmp_path_factory.mktemp("rabbit-pipeline"), {"model": SIMULATED, **settings})
    up.start()
    try:
        yield up
    finally:
        up.stop()


@pytest.fixture(params=["streams", "rabbitmq"])
def each_pipeline(request: pytest.FixtureRequest) -> Up:
    """The shared pipelines in turn, one for each broker."""
    name = "pipeline" if request.param == "streams" else "rabbit_pipeline"
    up: Up = request.getfixturevalue(name)
    return up


@pytest.fixture
def start_pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartPipeline]:
    """Start pipelines of the test's own: ``start_pipeline(broker="private", max_attempts="1")``."""
    started: list[Up] = []
    shared: list[dict[str, str]] = []

    def start(*flags: str, broker: str = "streams", **settings: str) -> Up:
        given = {"model": SIMULATED, **settings_for(broker, request), **settings}
        up = Up(tmp_path / f"pipeline-{len(started)}", given)
        started.append(up)
        if "namespace" in given:
            shared.append(given)
        up.start(*flags)
        return up

    yield start
    for up in started:
        up.stop()
    # Queues that were left would cost the shared node, and so the tests to come, memory and time.
    left: list[str] = []
    for given in shared:
        run_apart(remove_namespace(load({}, given)[0], left.append))
    assert left == []
