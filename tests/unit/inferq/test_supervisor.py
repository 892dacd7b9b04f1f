"""The supervision of one child: deaths, waits and returns, with real processes standing in for services."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from inferq.backoff import Backoff
from inferq.errors import OperatorError
from inferq.ports import free_port
from inferq.servicechild import ServiceChild, how_it_ended
from inferq.supervisor import FORGIVEN_AFTER_S, Supervisor
from tests.support import eventually

# Answers /readyz once the file "ready" lies beside it; its first line names its process.
SERVICE = """
import os, pathlib, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        ready = pathlib.Path(sys.argv[2], "ready").exists()
        body = b'{"status":"ready","checks":{}}' if ready else b'{"status":"not_ready","checks":{"redis":"away"}}'
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
print("runs", os.getpid(), flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Watched:
    """A service child with what it and its supervisor said."""

    def __init__(self, folder: Path, script: str = SERVICE) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.said: list[str] = []
        port = free_port()
        self.child = ServiceChild(
            "service",
            [sys.executable, "-u", "-c", script, str(port), str(folder)],
            env=os.environ,
            host="127.0.0.1",
            port=port,
            record=folder / "service.pid",
            on_line=lambda _, line: self.lines.append(line),
            cures={"broker": "start the broker", "redis": "start Redis"},
        )

    def make_ready(self) -> None:
        """Let the stand-in answer that it is ready."""
        (self.folder / "ready").touch()

    async def answers(self) -> bool:
        """Whether it is ready now."""
        await self.child.ready(10, self.said.append)
        return True


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Watched]:
    """A stand-in for a service, not started yet."""
    watched = Watched(tmp_path)
    yield watched
    await watched.child.stop()


@pytest.fixture
async def kept(service: Watched) -> AsyncIterator[Supervisor]:
    """A running service under a supervisor with short waits."""
    service.make_ready()
    supervisor = Supervisor(
        "service", service.child, say=service.said.append, backoff=Backoff(first_s=0.02, most_s=0.04)
    )
    await service.child.start()
    await service.answers()
    keeping = asyncio.create_task(supervisor.keep())
    yield supervisor
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_a_killed_child_comes_back_on_its_port(kept: Supervisor, service: Watched) -> None:
    """SIGKILL is noticed, said in one line with the signal, and the child returns with another process id."""
    first = kept.state.pid
    assert first is not None
    for restarts in (1, 2):
        victim = kept.state.pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        await eventually(lambda: kept.state.restarts == restarts, what="the restart")  # noqa: B023  # awaited in the loop
        assert await service.answers()
    assert kept.state.pid != first
    assert service.said[0].startswith("service died with signal SIGKILL; restart in 0.0")
    assert service.said[1] == f"service was started again, process {service.lines[1].split()[1]}"
    await eventually(lambda: len(service.lines) == 3, what="the first line of the third life")


async def test_a_start_that_fails_is_tried_again() -> None:
    """Neither a refusal nor an error of the system ends the supervision; each is said, and the waits grow."""

    class Refusing:
        pid: int | None = 7
        starts = 0

        async def start(self) -> None:
            self.starts += 1
            if self.starts == 1:
                raise OperatorError("the port is taken")
            if self.starts == 2:
                raise OSError("no more processes")

        async def wait(self) -> int:
            return await asyncio.get_running_loop().create_future() if self.starts == 3 else 1

        async def stop(self) -> None: ...

    said: list[str] = []
    supervisor = Supervisor(
        "it", Refusing(), say=said.append, backoff=Backoff(first_s=0.1, most_s=0.4, spread=lambda: 1.0)
    )
    keeping = asyncio.create_task(supervisor.keep())
    await eventually(lambda: supervisor.state.restarts == 1)
    assert said == [
        "it died with exit status 1; restart in 0.1 s",
        "it could not be started: the port is taken; restart in 0.2 s",
        "it could not be started: no more processes; restart in 0.4 s",
        "it was started again, process 7",
    ]
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


async def test_a_retired_supervisor_says_and_starts_nothing() -> None:
    """A death that comes after the retirement, even in the same turn of the loop, is nobody's business any more."""
    death = asyncio.get_running_loop().create_future()
    starts = 0

    class Killed:
        pid: int | None = 7

        async def start(self) -> None:
            nonlocal starts
            starts += 1

        async def wait(self) -> int:
            return int(await death)

        async def stop(self) -> None: ...

    said: list[str] = []
    supervisor = Supervisor("it", Killed(), say=said.append)
    keeping = asyncio.create_task(supervisor.keep())
    await asyncio.sleep(0)
    supervisor.retire()
    death.set_result(-9)
    await asyncio.wait_for(keeping, 5)
    assert (said, starts) == ([], 0)


@pytest.mark.parametrize(("while_waiting", "starts_then"), [(True, 0), (False, 1)])
async def test_a_supervisor_retired_before_a_restart_does_not_restart(
    while_waiting: bool, starts_then: int
) -> None:
    """The wait between death and restart is no loophole, nor is a start that failed."""
    starts = 0

    class Dead:
        pid: int | None = 7

        async def start(self) -> None:
            nonlocal starts
            starts += 1
            supervisor.retire()
            raise OperatorError("the port is taken")

        async def wait(self) -> int:
            return 1

        async def stop(self) -> None: ...

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if while_waiting:
            supervisor.retire()

    supervisor = Supervisor("it", Dead(), say=say, backoff=Backoff(first_s=0.01, most_s=0.01))
    await asyncio.wait_for(supervisor.keep(), 5)
    assert starts == starts_then
    assert [line.partition(";")[0] for line in said] == ["it died with exit status 1"]


async def test_a_minute_of_life_makes_the_next_wait_short_again() -> None:
    """The backoff starts over after a child that lived long, and not after one that did not."""
    now_s = 0.0
    lives_s = iter([1.0, 1.0, FORGIVEN_AFTER_S, 1.0])

    class Dying:
        pid: int | None = 7

        async def start(self) -> None: ...

        async def wait(self) -> int:
            nonlocal now_s
            now_s += next(lives_s)
            return 0

        async def stop(self) -> None: ...

    said: list[str] = []
    backoff = Backoff(first_s=0.1, most_s=10, spread=lambda: 1.0)
    with pytest.raises(RuntimeError):  # the iterator of lives is used up
        await Supervisor("it", Dying(), say=said.append, backoff=backoff, clock_s=lambda: now_s).keep()
    waits = [line.partition("restart in ")[2] for line in said if "restart in" in line]
    assert waits == ["0.1 s", "0.2 s", "0.1 s", "0.2 s"]


async def test_a_child_that_is_not_ready_says_why(service: Watched) -> None:
    """Past the deadline the refusal names what the child lacked, and the cure where one is known."""
    await service.child.start()
    with pytest.raises(OperatorError, match=r"^service was not ready within 2 s: redis: away: start Redis$"):
        await service.child.ready(2, service.said.append)


@pytest.mark.parametrize(
    ("script", "refusal"),
    [
        ("print('a log line'); print('it: port taken'); raise SystemExit(2)", "it: port taken"),
        ("raise SystemExit(3)", "service ended at its start with exit status 3: it said nothing"),
        ("print('hm'); import os; os.kill(os.getpid(), 9)",
         "service ended at its start with signal SIGKILL: hm"),
    ],
)  # fmt: skip  # script and refusal side by side
async def test_a_child_that_ends_at_its_start_is_quoted(tmp_path: Path, script: str, refusal: str) -> None:
    """An operator's mistake is passed on in the child's own line; any other end is named with its last line."""
    watched = Watched(tmp_path, script)
    await watched.child.start()
    with pytest.raises(OperatorError) as error:
        await watched.child.ready(10, watched.said.append)
    assert str(error.value) == refusal
    await watched.child.stop()


async def test_a_stop_passes_on_the_last_words(tmp_path: Path) -> None:
    """What a child writes while it ends is still read, and the stop leaves no process."""
    script = """
import signal, sys, time
def end(*_):
    print("last words")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up")
while True:
    time.sleep(60)
"""
    watched = Watched(tmp_path, script)
    await watched.child.start()
    await eventually(lambda: watched.lines == ["up"])
    pid = watched.child.pid
    await watched.child.stop()
    assert watched.lines == ["up", "last words"]
    assert pid is not None
    assert not psutil.pid_exists(pid)


async def test_output_without_line_ends_is_bounded(tmp_path: Path) -> None:
    """Megabytes without a line end come through in pieces and are cut, and the child is not held up."""
    watched = Watched(tmp_path, "print('x' * 3_000_000); print('end')")
    await watched.child.start()
    assert await watched.child.wait() == 0
    await eventually(lambda: watched.lines[-1:] == ["end"])
    assert max(len(line) for line in watched.lines) <= 16_384
    await watched.child.stop()


def test_ends_are_put_in_words() -> None:
    """A signal goes by its name, and a number that is none by itself."""
    assert how_it_ended(2) == "exit status 2"
    assert how_it_ended(-9) == "signal SIGKILL"
    assert how_it_ended(-200) == "signal 200"


# Says that it is stuck for as long as the file "stuck" lies beside it.
STUCK = SERVICE.replace(
    "        self.send_response(200 if ready else 503)",
    """        if pathlib.Path(sys.argv[2], "stuck").exists():
            ready, body = False, b'{"status":"stuck","reason":"nothing moves"}'
        self.send_response(200 if ready else 503)""",
)


async def test_a_child_that_says_it_is_stuck_is_ended_and_started_again(tmp_path: Path) -> None:
    """Once for each time that it is stuck; one that is merely not ready is left alone, and so is one that is silent."""
    watched = Watched(tmp_path, STUCK)
    supervisor = Supervisor(
        "service",
        watched.child,
        say=watched.said.append,
        stuck=watched.child.stuck,
        look_every_s=0.02,
        backoff=Backoff(first_s=0.01, most_s=0.01),
    )
    await watched.child.start()
    keeping = asyncio.create_task(supervisor.keep())
    try:
        first = watched.child.pid
        assert first is not None
        await eventually(lambda: watched.lines, what="the first life")
        assert await watched.child.stuck() == ""
        (tmp_path / "stuck").touch()
        await eventually(lambda: any("is ended" in line for line in watched.said), what="the verdict")
        (tmp_path / "stuck").unlink()
        await eventually(lambda: watched.child.pid != first, what="the next life")
        await eventually(lambda: supervisor.state.restarts == 1, what="the restart")
        assert watched.said[0] == "service is stuck (nothing moves): it is ended"
        os.kill(watched.child.pid or 0, signal.SIGSTOP)
        assert await watched.child.stuck() == ""
        os.kill(watched.child.pid or 0, signal.SIGCONT)
        assert supervisor.state.restarts == 1
    finally:
        supervisor.retire()
        keeping.cancel()
        await asyncio.wait({keeping})
        await watched.child.stop()
