"""Servers that integration and acceptance tests share, each started once, when the first test asks for it."""

import asyncio
import os
import secrets
import signal
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferq.errors import OperatorError
from inferq.rabbitnode import PrivateRabbit, find_rabbitmq_server
from inferq.valkey import EmbeddedValkey

_skipped_for_want_of: set[str] = set()

# A shell gives what it runs in the background an ignored SIGINT, which programs inherit and `inferq up` heeds. Tests
# that interrupt one need the default: a signal that is caught here is no longer ignored in what is started from here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[EmbeddedValkey]:
    """The embedded Valkey of this test run; tests that stop or kill a server start one of their own."""
    with tempfile.TemporaryDirectory(prefix="inferq-valkey-") as folder:
        server = EmbeddedValkey(Path(folder))
        run_apart(server.start())
        try:
            yield server
        finally:
            run_apart(server.stop())


@pytest.fixture(scope="session")
def valkey_url(valkey_server: EmbeddedValkey) -> str:
    """URL of the embedded Valkey; shared, so use the ``namespace`` fixture for every name."""
    return valkey_server.url


@pytest.fixture(scope="session")
def rabbitmq_installed() -> None:
    """Skip, loudly, where RabbitMQ is not installed; fail under CI=true."""
    try:
        find_rabbitmq_server()
    except OperatorError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        _skipped_for_want_of.add(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def rabbit_node(rabbitmq_installed: None) -> Iterator[PrivateRabbit]:
    """The private RabbitMQ of this test run; tests that stop or kill a node start one of their own."""
    with tempfile.TemporaryDirectory(prefix="inferq-rabbit-") as folder:
        node = PrivateRabbit(Path(folder))
        run_apart(node.start())
        try:
            yield node
        finally:
            run_apart(node.stop())


@pytest.fixture(scope="session")
def rabbit_url(rabbit_node: PrivateRabbit) -> str:
    """URL of the private RabbitMQ; shared, so use the ``namespace`` fixture for every name."""
    return rabbit_node.url


@pytest.fixture
def namespace() -> str:
    """A prefix that no other test uses."""
    return f"t{secrets.token_hex(4)}-"


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a loop of its own, leaving the current one of the tests as it is."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(work)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, where it is read, that a whole broker went untested."""
    for reason in sorted(_skipped_for_want_of):
        terminalreporter.section("RABBITMQ TESTS WERE SKIPPED", sep="!", red=True, bold=True)
        terminalreporter.line(reason, red=True)
