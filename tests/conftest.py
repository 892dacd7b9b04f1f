"""Servers that integration and acceptance tests share, each started once, when the first test asks for it."""

import asyncio
import os
import secrets
import signal
import tempfile
from collections.abc import Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from inferq.errors import OperatorError
from inferq.rabbitnode import PrivateRabbit, find_rabbitmq_server
from inferq.valkey import EmbeddedValkey
from tests.turns import turn

_UNTESTED: Final = "a whole broker goes untested: "

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
        pytest.skip(f"{_UNTESTED}{error}")


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Take a turn; before the test's time begins to count."""
    with turn(alone=item.get_closest_marker("alone") is not None):
        return (yield)


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a loop of its own, leaving the current one of the tests as it is."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(work)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, where it is read, that a whole broker went untested."""
    # What is reported is known here, whichever process skipped it.
    found = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    skipped = [place[2] for place in found if isinstance(place, tuple)]
    if reasons := {reason.partition(_UNTESTED)[2] for reason in skipped if _UNTESTED in reason}:
        terminalreporter.section("RABBITMQ TESTS WERE SKIPPED", sep="!", red=True, bold=True)
        for reason in sorted(reasons):
            terminalreporter.line(reason, red=True)
