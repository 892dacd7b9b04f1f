"""`python -m loadgen.gpu`: checks a GPU within ten minutes and writes a report; deploy/gpu-check.sh runs it.

Parts come by their worth, each is begun only if it is likely to end in time, and one that fails costs the others
nothing: what was found by then is written in any case. Exit code 0 when every part ran, 1 when one failed, 2 when
nothing could begin.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from inferq.cpus import available_cpus
from inferq.errors import InferqError, OperatorError, first_line
from inferq.plurals import counted
from inferq.randommodel import FULL, Size, write_random
from loadgen.childwork import ask
from loadgen.deployment import deployed
from loadgen.gpu import piping
from loadgen.gpu.bare import Order
from loadgen.gpu.found import Bare, Found
from loadgen.gpu.page import aims, document
from loadgen.gpu.piping import HUNGRY, SIMULATED, Way
from loadgen.reports.environment import environment
from loadgen.reports.files import writable, write
from loadgen.texts import dealt

BENCHMARKS: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
# Long enough for the largest shapes; what a text has more of is cut.
LONG_TEXT: Final = "a film that never ends " * 80
LONG_JOBS: Final = 128
BARE_SLACK_S: Final = 120.0
SMALL: Final = Size(layers=1, width=32, heads=2, hidden=64, positions=64)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured and for how long; ``batchers`` are tried in turn with the last of ``rows``."""

    size: Size
    precisions: tuple[str, ...]
    rows: tuple[int, ...]
    table_rows: tuple[int, ...]
    lengths: tuple[int, ...]
    max_tokens: int
    batchers: tuple[int, ...]
    ingresses: int
    feeders: int
    cell_s: float
    loop_s: float
    seconds: float
    rate: float


WHOLE: Final = Plan(
    size=FULL,
    precisions=("fp16", "fp32"),
    rows=(16, 64, 256),
    table_rows=(1, 4, 16, 64, 256),
    lengths=(16, 32, 64, 128, 512),
    max_tokens=32_768,
    batchers=(2, 4, 6),
    ingresses=4,
    feeders=4,
    cell_s=0.4,
    loop_s=3.0,
    seconds=6.0,
    rate=1000.0,
)
QUICK: Final = Plan(
    size=SMALL,
    precisions=("fp32", "fp16"),
    rows=(16,),
    table_rows=(1, 16),
    lengths=(16, 32),
    max_tokens=4096,
    batchers=(),
    ingresses=1,
    feeders=2,
    cell_s=0.05,
    loop_s=0.5,
    seconds=2.0,
    rate=50.0,
)


class Check:
    """Runs the parts, one after the other, as long as there is time."""

    def __init__(self, plan: Plan, device: str, model: Path, within_s: float) -> None:
        self._plan, self._device, self._model = plan, device, str(model)
        self._began_s, self._over_s = time.monotonic(), time.monotonic() + within_s
        self.found = Found(device=device, gpu=gpu_name())

    async def run(self) -> Found:
        """Run all parts and return what was found."""
        plan, main = self._plan, self._plan.precisions[0]
        await self._part("fallback", 30, self._fallback)
        for precision in plan.precisions:
            await self._part(f"bare runtime, {precision}", 60, partial(self._bare, precision))
        ways = [(main, rows, 1) for rows in reversed(plan.rows)]
        ways[1:1] = [(main, plan.rows[-1], count) for count in plan.batchers]
        for precision, rows, batchers in ways:
            name = f"pipeline, {precision}, batches of {rows}, {counted(batchers, 'batcher')}"
            await self._part(name, 50, partial(self._piped, precision, rows, batchers))
        await self._part("memory, ordered", 25, self._ordered)
        if self._device == "cuda":
            await self._part("memory, a small share of the device", 60, self._small_share)
        self.found.seconds = time.monotonic() - self._began_s
        return self.found

    async def _part(self, name: str, likely_s: float, work: Callable[[], Awaitable[None]]) -> None:
        left_s = self._over_s - time.monotonic()
        if left_s < likely_s:
            self.found.skipped.append(name)
            return
        say(f"{name} ({left_s:.0f} s left)")
        try:
            async with asyncio.timeout(left_s):
                await work()
        except* (InferqError, OSError, ValueError, TimeoutError) as failed:
            error: BaseException = failed
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            self.found.failed[name] = first_line(error) if str(error) else type(error).__name__
            say(f"  failed: {self.found.failed[name]}")

    async def _fallback(self) -> None:
        self.found.fallback = await piping.fallback(self._model, "fp32")

    async def _bare(self, precision: str) -> None:
        plan = self._plan
        order = Order(
            model=self._model,
            precision=precision,
            device=self._device,
            texts=list(dealt(4096)),
            rows=list(plan.table_rows),
            lengths=list(plan.lengths),
            max_tokens=plan.max_tokens,
            loop_rows=list(plan.rows),
            cell_s=plan.cell_s,
            loop_s=plan.loop_s,
        )
        self.found.bare.append(await ask("loadgen.gpu.bare", order, Bare, within_s=BARE_SLACK_S))

    async def _piped(self, precision: str, rows: int, batchers: int) -> None:
        plan = self._plan
        way = replace(
            self._way(precision),
            max_rows=rows,
            batchers=batchers,
            ingresses=plan.ingresses,
            feeders=plan.feeders,
        )
        async with deployed("streams", **way.settings()) as deployment:
            self.found.piped.append(await piping.saturated(way, deployment, seconds=plan.seconds))
        done = self.found.piped[-1]
        say(f"  {done.done_per_s:.0f} jobs/s in batches of {done.mean_batch:.1f}")
        if batchers == 1 and rows == plan.rows[-1]:
            # Of its own: what was fed and not done would be before it in the queue.
            async with deployed("streams", **way.settings()) as deployment:
                self.found.light.append(
                    await piping.steady(
                        way, deployment, rate=min(plan.rate, done.done_per_s / 2), seconds=3.0
                    )
                )

    async def _ordered(self) -> None:
        way = replace(self._way("fp32"), model=SIMULATED, device="auto")
        texts = [HUNGRY if number % 16 == 0 else text for number, text in enumerate(dealt(128))]
        self.found.memory.append(
            await piping.short_of_memory(way, texts=texts, said_by="texts that order it")
        )

    async def _small_share(self) -> None:
        """Give a batcher one percent of the device, and texts that fill its largest batches."""
        way = replace(self._way("fp32"), max_rows=256, max_tokens=131_072)
        texts = [f"{number} {LONG_TEXT}" for number in range(LONG_JOBS)]
        found = await piping.short_of_memory(
            way, texts=texts, said_by="one percent of the device", gpu_memory_percent="1"
        )
        self.found.memory.append(found)

    def _way(self, precision: str) -> Way:
        plan = self._plan
        return Way(
            model=self._model,
            precision=precision,
            device=self._device,
            max_rows=plan.rows[0],
            max_tokens=plan.max_tokens,
        )


def say(words: str) -> None:
    """Tell the terminal how far it is."""
    sys.stderr.write(f"gpu check: {words}\n")


def gpu_name() -> str:
    """Return what the driver calls the first GPU, with its version and memory; empty where there is none."""
    fields = "--query-gpu=name,driver_version,memory.total"
    try:
        asked = subprocess.run(
            ["nvidia-smi", fields, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip().partition("\n")[0]


def main(argv: list[str] | None = None) -> int:
    """Check a device and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m loadgen.gpu", description="check a GPU and write a report"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--quick", action="store_true", help="a model of one layer and short runs: only whether it works"
    )
    parser.add_argument("--model", type=Path, help="a folder with fp32 and fp16; else one is written")
    parser.add_argument("--within", type=float, default=570.0, metavar="S", help="seconds for all of it")
    parser.add_argument(
        "--out", type=Path, help="where the report goes: docs/benchmarks, or with --quick a folder of its own"
    )
    arguments = parser.parse_args(argv)
    plan = QUICK if arguments.quick else WHOLE
    out = arguments.out or (
        Path(tempfile.mkdtemp(prefix="inferq-gpu-report-")) if arguments.quick else BENCHMARKS
    )
    began_s, began_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    try:
        writable(out)
        about = environment() | {"GPU": gpu_name() or "none", "cores": str(available_cpus())}
        with tempfile.TemporaryDirectory(prefix="inferq-gpu-") as folder:
            model = arguments.model
            if model is None:
                say("writing a random model")
                model = write_random(Path(folder) / "random-distilbert", size=plan.size)
            left_s = arguments.within - (time.monotonic() - began_s)
            found = asyncio.run(Check(plan, arguments.device, model, left_s).run())
        words = [f"--device {arguments.device}"] if arguments.device != "cuda" else []
        words += ["--quick"] if arguments.quick else []
        words += ["--model FOLDER"] if arguments.model else []
        command = " ".join(["bash deploy/gpu-check.sh", *words])
        report = document(found, command=command, began_at=began_at, environment=about, quick=arguments.quick)
        name = f"gpu-{arguments.device}{'-quick' if arguments.quick else ''}"
        page = write(report, out, name)
    except OperatorError as error:
        say(str(error))
        return 2
    for figure in aims(found):
        sys.stdout.write(f"{figure.line()}\n")
    sys.stdout.write(f"{page}\n")
    return 1 if found.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
