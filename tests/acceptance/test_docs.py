"""The commands and programs of README.md and docs/, run as they stand there.

A page's blocks are run in their order in one scratch folder, each in a shell that knows the variables of those before
it. They talk to one pipeline that runs already; a block which is `make run` alone, with settings before it, starts
another, and the rest of the page talks to that one.
"""

import asyncio
import dataclasses
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferq.ports import LOOPBACK
from tests.acceptance.conftest import SIMULATED
from tests.acceptance.pages import ROOT, Block, agrees, blocks, fences, holds, pages, text_of
from tests.acceptance.running import Up, command, environ
from tests.support import eventually

# What the pages say, and where it is in truth, is put right in `_here` alone.
API, NOTIFIER, BATCHER, RECEIVER_PORT = "localhost:8080", "localhost:8081", "localhost:8082", "9000"
RECEIVER = f"{LOOPBACK}:{RECEIVER_PORT}"
LONGEST_S = 60.0
PAGES = [page for page in pages() if any(blocks(page))]
# The page's variables and functions are kept for its next block, which may be beside another pipeline.
# A pipe fails where any part of it does, or a broken command before `| grep` might pass.
_SH = ("bash", "--posix", "-euo", "pipefail", "-c")
_SHELL = """set -a; set -- "$INFERQ_URL" "$XDG_STATE_HOME"; if [ -f "$KEPT" ]; then . "$KEPT"; fi
INFERQ_URL=$1; XDG_STATE_HOME=$2; shift 2
"""
# Each answer's status is told, apart from what is printed.
_CURL = """#!/bin/bash
given=()
while (($#)); do
  if [[ $1 == -w ]]; then printed=$2; shift; else given+=("$1"); fi
  shift
done
exec {curl} "${given[@]}" -w "$printed%{stderr}status %{http_code}\\n"
"""
_KEEP = '\n{ export -p; declare -f; } > "$KEPT"\n'


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


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The reader's folder, in which the commands are where the pages have them; what is ours lies beside it."""
    folder, curl = tmp_path / "folder", tmp_path / "bin" / "curl"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    curl.parent.mkdir()
    curl.write_text(_CURL.replace("{curl}", shutil.which("curl") or "curl"))
    curl.chmod(0o700)
    return folder


def _environ(up: Up, folder: Path) -> dict[str, str]:
    """Return the reader's environment, in which the commands' own state folder is the pipeline's."""
    beside = folder.parent
    home = beside / f"state-{up.api.rpartition(':')[2]}"
    if not home.exists():
        home.mkdir()
        (home / "inferq").symlink_to(up.state_dir)
    inherited = environ({"url": up.api})
    known = {"XDG_STATE_HOME": str(home), "KEPT": str(beside / "kept")}
    return inherited | known | {"PATH": f"{beside / 'bin'}:{inherited['PATH']}"}


async def _run(*argv: str, up: Up, folder: Path) -> tuple[str, str]:
    """Run a program to its end beside the pipeline, and return what it printed."""
    running = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=_environ(up, folder),
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
    assert running.returncode == 0, output.decode() + errors.decode()
    return output.decode(), errors.decode()


def _places(up: Up) -> dict[str, str]:
    return {
        API: up.api.removeprefix("http://"),
        NOTIFIER: up.push.removeprefix("ws://"),
        BATCHER: up.services["batcher-1"].removeprefix("http://"),
        "127.0.0.1:8080": up.api.removeprefix("http://"),
        "127.0.0.1:8081": up.push.removeprefix("ws://"),
    }


def _here(text: str, up: Up) -> str:
    """Return a page's commands with the addresses that the pipeline really has."""
    for there, now in _places(up).items():
        text = text.replace(there, now)
    return text


async def _checked(block: Block, up: Up, folder: Path) -> None:
    """Run a block and compare: its requests' statuses, their bodies as comments show them, and the output below it."""
    where = f"{block.page}:{block.line}"
    text = _here(block.text, up)
    argv = (*_SH, _SHELL + text + _KEEP) if block.kind == "sh" else (sys.executable, "-c", text)
    output, errors = await _run(*argv, up=up, folder=folder)
    statuses = [int(status) for status in re.findall(r"^status (\d+)$", errors, re.MULTILINE)]
    said = block.said
    assert len(statuses) == len(said), f"{where}: {len(said)} requests stand there:\n{errors}"
    for number, (status, expected) in enumerate(zip(statuses, said, strict=True), 1):
        assert status in expected.statuses, f"{where}: request {number} was answered {status}:\n{output}"
        assert holds(output, _here(expected.body, up)), f"{where}: no {expected.body} in\n{output}"
    assert "Connection closed: 44" not in output, f"{where}:\n{output}"
    if block.shown is not None:
        assert agrees(output, _here(block.shown, up)), f"{where}: it printed\n{output}"


def _from(folder: Path, value: str) -> str:
    """Return a setting whose file or folder is the reader's."""
    return re.sub(r"^(@|\./)", lambda found: f"{found[1].replace('./', '')}{folder}/", value)


@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_a_page_work(up: Up, page: str, scratch: Path) -> None:
    """Pasted into a shell they end well, every request is answered as is said, and what is printed is what is shown."""
    own: Up | None = None
    try:
        for block in blocks(page):
            if block.reason is not None:
                continue
            settings = block.starts
            if settings is None:
                await _checked(block, own or up, scratch)
            elif settings:
                if own is not None:
                    # Its reader has pressed Ctrl-C.
                    assert own.stop() == 0
                given = {name: _from(scratch, value) for name, value in settings.items()}
                own = Up(scratch.parent / f"pipeline-{block.line}", {"model": SIMULATED, **given})
                own.start()
    finally:
        if own is not None:
            own.stop()
    assert await _untracked(scratch) == []


async def _untracked(folder: Path) -> list[str]:
    """Return what git would take up of a reader's folder, were it the clone."""
    (folder / ".venv").unlink()
    shutil.copy(ROOT / ".gitignore", folder.parent / "ignored")
    found = b""
    for argv in (
        ("init", "-q"),
        ("-c", f"core.excludesFile={folder.parent / 'ignored'}", "status", "--porcelain"),
    ):
        git = await asyncio.create_subprocess_exec("git", *argv, cwd=folder, stdout=asyncio.subprocess.PIPE)
        found, _ = await git.communicate()
        assert git.returncode == 0, argv
    return found.decode().splitlines()


@pytest.mark.parametrize(
    "broken",
    [
        "curl -s localhost:8080/v1/nothing",
        ".venv/bin/inferq nothing",
        ".venv/bin/inferq nothing | head -1",
        ".venv/bin/inferq submit --nothing x",
        "curl -s localhost:8080/healthz     # 404",
        'curl -s localhost:8080/healthz\n# 200 {"nothing":…}',
        "(( 1 )) && [[ -n",
    ],
)
async def test_a_broken_command_is_found(up: Up, scratch: Path, broken: str) -> None:
    """Be it a path, a command, the first part of a pipe, a flag, or what the page says of the answer."""
    block = Block(page="", line=1, kind="sh", text=f"{broken}\n", reason=None, shown=None)
    with pytest.raises(AssertionError):
        await _checked(block, up, scratch)
    await _checked(dataclasses.replace(block, text="curl -s localhost:8080/healthz\n"), up, scratch)


async def test_the_readme_shows_what_a_demo_prints() -> None:
    """Every line of it but the steps that not every start has, and each of the table's."""
    (shown,) = re.findall(r"<!-- demo output -->\n```\n(.*?)```", text_of("README.md"), re.DOTALL)
    ended = await command("demo")
    assert ended.code == 0, ended.err
    # How many batches the sentences make is a matter of moments.
    assert agrees(ended.out.replace(" 1 batch,", " 1 batches,"), shown[shown.index("sentence ") :])
    for step in shown[: shown.index("sentence ")].splitlines():
        if "not ready yet" not in step:
            assert holds(ended.err, step), ended.err


async def test_the_receiver_of_the_page_proves_what_it_is_sent(
    up: Up, receiver_port: int, scratch: Path
) -> None:
    """The page's three commands, of which the first is the pipeline here, end in what the page says."""
    (program,) = fences("docs/webhooks.md", "python")
    (block,) = [block for block in blocks("docs/webhooks.md") if block.reason is not None]
    start, receive, submit = block.text.replace(RECEIVER, f"{LOOPBACK}:{receiver_port}").splitlines()
    assert start == f"INFERQ_WEBHOOK_HOSTS={up.settings['INFERQ_WEBHOOK_HOSTS']} make run"
    (scratch / "build").mkdir()
    (scratch / "build" / "receiver.py").write_text(program.replace(RECEIVER_PORT, str(receiver_port)))
    running = await asyncio.create_subprocess_exec(
        *(*_SH, f"exec {receive}"),
        cwd=scratch,
        env=_environ(up, scratch),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running.stdout is not None
    try:
        await eventually(lambda: _listens(receiver_port), 20, what="the receiver")
        await _run(*_SH, submit, up=up, folder=scratch)
        async with asyncio.timeout(30):
            said = (await running.stdout.readline()).decode()
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()
    assert f"`{said.strip()}`" in text_of("docs/webhooks.md")


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((LOOPBACK, port)) == 0
