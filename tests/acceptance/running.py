"""`inferq` as its users have it: a process with an environment, what it prints and how it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from websockets.asyncio.client import connect

START_WITHIN_S = 90.0
STOP_WITHIN_S = 60.0
COMMAND_WITHIN_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


def environ(settings: Mapping[str, str]) -> dict[str, str]:
    """Return our environment with these settings, by field, and no others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INFERQ_")}
    return inherited | {f"INFERQ_{field.upper()}": value for field, value in settings.items()}


async def command(
    *argv: str, stdin: str = "", settings: Mapping[str, str] | None = None, within_s: float = COMMAND_WITHIN_S
) -> Ended:
    """Run `inferq` to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inferq", *argv,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environ(settings or {}),
    )  # fmt: skip  # the command first, then its surroundings
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate(stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(code=process.returncode or 0, out=out.decode(), err=err.decode())


class Up:
    """One `inferq up --ports auto` with its own state folder; usable from fixtures of any scope."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.state_dir = folder / "state"
        self._settings = settings
        self._out, self._err = folder / "out", folder / "err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start it and wait until it says that it is up."""
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "inferq",
                    "up",
                    "--ports",
                    "auto",
                    "--state",
                    str(self.state_dir),
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environ(self._settings),
            )
        deadline = time.monotonic() + START_WITHIN_S
        while "state" not in self.out or not (self.state_dir / "run.json").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"inferq up did not come up:\n{self.out}\n{self.err}")
            time.sleep(0.05)

    def __enter__(self) -> "Up":
        """Start it; at the end it is stopped."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """Stop it as Ctrl-C does and return its exit code."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        assert self._process is not None
        try:
            return self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"inferq up did not end:\n{self.err}") from None

    def kill(self) -> None:
        """Kill the supervisor, as a crash does."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def out(self) -> str:
        """What it printed."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it and its services logged."""
        return self._err.read_text()

    @property
    def run_file(self) -> dict[str, Any]:
        """What it wrote down for other commands."""
        found: dict[str, Any] = json.loads((self.state_dir / "run.json").read_bytes())
        return found

    @property
    def settings(self) -> dict[str, str]:
        """The settings as they came out, by variable."""
        found: dict[str, str] = self.run_file["environ"]
        return found

    @property
    def services(self) -> dict[str, str]:
        """Where each service listens, by name."""
        return {
            entry["name"]: f"http://{entry['host']}:{entry['port']}" for entry in self.run_file["services"]
        }

    @property
    def api(self) -> str:
        """The HTTP API."""
        return f"http://127.0.0.1:{self.settings['INFERQ_INGRESS_PORT']}"

    @property
    def push(self) -> str:
        """Where push is."""
        return f"ws://127.0.0.1:{self.settings['INFERQ_NOTIFIER_PORT']}"

    def pid(self, name: str) -> int:
        """Return the process id of valkey, rabbitmq, notifier, batcher-1, ingress or engine; 0 while there is none."""
        if name == "engine":
            return engine_of(self.pid("batcher-1"))
        record = {"valkey": "valkey/valkey.pid", "rabbitmq": "rabbitmq/node.pid"}.get(name, f"{name}.pid")
        try:
            return int((self.state_dir / record).read_text().split()[0])
        except (FileNotFoundError, IndexError):
            # Removed with a death, and written anew with the next life.
            return 0

    def processes(self) -> list[psutil.Process]:
        """Return every process that it started, directly or not."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    async def ready(self) -> bool:
        """Whether every service says that it is ready."""
        async with httpx.AsyncClient(trust_env=False) as client:
            for base in self.services.values():
                try:
                    if (await client.get(f"{base}/readyz")).status_code != 200:
                        return False
                except httpx.HTTPError:
                    return False
        return True

    async def command(self, *argv: str, stdin: str = "") -> Ended:
        """Run a command against this pipeline; what follows the command's name comes last."""
        group = 2 if argv[0] in {"dead", "model", "webhooks"} else 1
        return await command(*argv[:group], "--state", str(self.state_dir), *argv[group:], stdin=stdin)

    async def submit(self, text: str) -> str:
        """Submit a text and return the job's id."""
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.post(f"{self.api}/v1/infer", json={"text": text})
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    async def pushed(self, job_id: str) -> dict[str, Any]:
        """Return the final record as push brings it."""
        async with connect(f"{self.push}/ws/jobs/{job_id}", proxy=None) as socket:
            record: dict[str, Any] = json.loads(await socket.recv())
        return record


def engine_of(batcher_pid: int) -> int:
    """Return the process id of a batcher's engine; 0 while it has none."""
    try:
        children = psutil.Process(batcher_pid).children()
    except psutil.NoSuchProcess:
        return 0
    return children[0].pid if children else 0


def living(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run."""
    return [
        process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]
