"""A browser, and the pipelines that its pages belong to."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.acceptance.running import Up

BROWSERS: Final = ("chromium", "google-chrome")

StartUp = Callable[..., Up]

_figures: list[str] = []


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The installed Chromium; skip, loudly, where there is none, and fail under CI=true."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        # Its own sandbox needs rights that root in a container has not.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield running
        finally:
            running.close()


@pytest.fixture
def figures() -> list[str]:
    """Takes what was measured, to be shown at the end."""
    return _figures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    if _figures:
        terminalreporter.section("figures")
        for figure in _figures:
            terminalreporter.line(figure)


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The pipeline with the model that ships with the package, as `make run` starts it."""
    with Up(tmp_path_factory.mktemp("pipeline"), {"model": "builtin", "device": "cpu"}) as up:
        yield up


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[StartUp]:
    """Start a pipeline of the test's own, with a simulated model."""
    started: list[Up] = []

    def start(**settings: str) -> Up:
        up = Up(tmp_path / f"pipeline-{len(started)}", {"model": "simulated:1,0.2,faults", **settings})
        started.append(up)
        up.start()
        return up

    yield start
    for up in started:
        up.stop()
