"""The commands and programs of the README and of the page on webhooks, run as they stand there."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferq.ports import LOOPBACK
from tests.acceptance.running import Up, environ
from tests.support import eventually

ROOT = Path(__file__).resolve().parents[2]
API, NOTIFIER, RECEIVER_PORT = "localhost:8080", "localhost:8081", 9000
LONGEST_S = 60.0
# Each answer's status is told, apart from what is printed.
_TELLING = "curl() { command curl -w '%{stderr}status %{http_code}\\n' \"$@\"; }\n"


def _blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _pasted() -> list[tuple[str, str]]:
    """Return the blocks that talk to a pipeline which runs already, each with its page."""
    return [
        (page, block)
        for page in ("README.md", "docs/webhooks.md")
        for block in _blocks(page, "sh")
        if API in block and "make " not in block
    ]


@pytest.fixture(scope="module")
def receiver_port() -> int:
    """A port that is free, for what the page has at 9000."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, receiver_port: int) -> Iterator[Up]:
    """A pipeline with the model that ships with the package, whose webhooks may go to the receiver."""
    settings = {"model": "builtin", "device": "cpu", "webhook_hosts": f"{LOOPBACK}:{receiver_port}"}
    running = Up(tmp_path_factory.mktemp("pages"), settings)
    running.start()
    try:
        yield running
    finally:
        running.stop()


async def _run(*argv: str, up: Up) -> tuple[str, str]:
    """Run a program to its end beside the pipeline, and return what it printed."""
    running = await asyncio.create_subprocess_exec(
        *argv,
        cwd=ROOT,
        env=environ({"url": up.api}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            output, errors = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert running.returncode == 0, errors.decode()
    return output.decode(), errors.decode()


def test_the_pages_have_commands() -> None:
    """What the tests below look for is there."""
    assert [page for page, _ in _pasted()].count("README.md") >= 3
    assert "docs/webhooks.md" in [page for page, _ in _pasted()]


@pytest.mark.parametrize(("page", "block"), _pasted())
async def test_the_commands_of_a_page_work(up: Up, page: str, block: str) -> None:
    """Pasted into a shell they end well, and every request is taken; a cancel may come after the job's end."""
    here = {API: up.api.removeprefix("http://"), NOTIFIER: up.push.removeprefix("ws://")}
    for there, now in here.items():
        block = block.replace(there, now)
    block = block.replace(".venv/bin/", f"{Path(sys.executable).parent}{os.sep}")
    output, errors = await _run("sh", "-euc", _TELLING + block, up=up)
    statuses = re.findall(r"status (\d+)", errors)
    assert len(statuses) == block.count("curl "), errors
    assert set(statuses) <= ({"200", "202", "409"} if "DELETE" in block else {"200", "202"}), output
    assert "Connection closed: 44" not in output, output


async def test_the_program_of_the_readme_prints_what_is_shown(up: Up) -> None:
    """Its lines are those of the block below it."""
    (program,), (shown,) = _blocks("README.md", "python"), _blocks("README.md", "text")
    output, _ = await _run(sys.executable, "-c", program, up=up)
    assert output == shown


async def test_the_receiver_of_the_page_proves_what_it_is_sent(up: Up, receiver_port: int) -> None:
    """With the secret that the command prints it takes a webhook and prints what the page says."""
    secret = await up.command("webhooks", "secret")
    assert secret.code == 0, secret.err
    (program,) = _blocks("docs/webhooks.md", "python")
    receiver = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program.replace(str(RECEIVER_PORT), str(receiver_port)), secret.out.strip()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert receiver.stdout is not None
    try:
        await eventually(lambda: _listens(receiver_port), 10, what="the receiver")
        hook = f"http://{LOOPBACK}:{receiver_port}/"
        submitted = await up.command("submit", "I loved it", "--webhook", hook)
        assert submitted.code == 0, submitted.err
        async with asyncio.timeout(30):
            said = (await receiver.stdout.readline()).decode()
    finally:
        receiver.kill()
        await receiver.wait()
    assert f"`{said.strip()}`" in (ROOT / "docs/webhooks.md").read_text(encoding="utf-8")


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((LOOPBACK, port)) == 0
