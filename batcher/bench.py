"""`python -m batcher.bench SPEC`: warm a model up as the batcher does, and show what was measured.

The engine process and the warm-up are the batcher's own, so what is printed here is what a batcher with these settings
would predict with. Exit code 0, or 1 with one line.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from batcher import warmup
from batcher.benchpicture import picture
from batcher.benchreport import Report, fitted, lines
from batcher.check import model_parser, parsed
from batcher.engine import Answer, Engine
from batcher.layout import Layout, candidates
from batcher.shapes import shapes_of
from batcher.tokenizer import open_tokenizer
from batcher.touch import TOUCH_MOST_S
from batcher.wire import Load, Loaded
from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.modelfolder import MODEL_FILES, ModelFolder, Progress, resolve
from inferq.modelspec import ModelKind, ModelSpec
from inferq.plurals import counted
from inferq.precision import note
from inferq.progresspipe import reporter
from inferq.telemetry import configure_logs

_SIMULATED: Final = "there is no model: its times are what INFERQ_MODEL says"
# Opening a layout's sessions, which depends on the model, and the runs that are not part of a measurement.
_OPENING_S: Final = 0.5


class _Watched(Engine):
    """An engine that tells, with each run, how much of the expected time is over."""

    def __init__(self, load: Load, *, pad_id: int, progress: Progress) -> None:
        super().__init__(load, pad_id=pad_id)
        self._progress = progress
        self._started_s = self._expected_s = 0.0

    def expect(self, expected_s: float) -> None:
        self._started_s, self._expected_s = time.perf_counter(), expected_s

    async def run(
        self,
        rows: Sequence[Sequence[int]],
        *,
        timeout_ms: float,
        wide: bool = False,
        types: Sequence[Sequence[int]] = (),
    ) -> Answer:
        shape = f"{len(rows)} x {counted(len(rows[0]), 'token')}"
        gone_s = time.perf_counter() - self._started_s
        # Never at its end before it is: the time is a guess
        done = min(int(1000 * gone_s / self._expected_s), 990)
        self._progress(f"layout {self.layout.text}: {shape}", done, 1000)
        return await super().run(rows, timeout_ms=timeout_ms, wide=wide, types=types)


async def measure(arguments: argparse.Namespace) -> Report:
    """Start an engine, warm it up, and return what was measured; `OperatorError` when the model does not run."""
    progress = reporter(arguments.progress_fd)
    spec = parsed(arguments.spec)
    folder = resolve(spec, cache_dir=arguments.cache_dir, progress=progress)
    if folder is not None and folder.signature is not None:
        raise OperatorError(
            f"{folder.path} takes tensors, and only text models are measured: see inferq model check"
        )
    tokenizer = open_tokenizer(spec, folder)
    threads = arguments.threads or available_cpus()
    progress(f"loading {spec.name}", 0, 0)
    load = Load(
        spec=spec.text,
        folder=str(folder.path) if folder is not None else None,
        device=arguments.device,
        precision=arguments.precision,
    )
    engine = _Watched(load, pad_id=tokenizer.pad_id, progress=progress)
    try:
        loaded = await engine.start()
        simulated = spec if spec.kind is ModelKind.SIMULATED else None
        max_length = min(loaded.max_length, tokenizer.max_length)
        engine.shapes = shapes_of(loaded.device, max_rows=arguments.max_batch_size, max_length=max_length)
        engine.expect(_expected_s(threads, arguments.sessions, loaded.device, simulated))
        warmth = await warmup.warm_up(
            engine,
            threads=threads,
            sessions=arguments.sessions,
            device=loaded.device,
            simulated=simulated,
            max_length=max_length,
            max_rows=arguments.max_batch_size,
            max_tokens=arguments.max_batch_tokens,
        )
    finally:
        await engine.stop()
    return _report(arguments, spec, folder, loaded, warmth, threads)


def _report(
    arguments: argparse.Namespace,
    spec: ModelSpec,
    folder: ModelFolder | None,
    loaded: Loaded,
    warmth: warmup.Warmth,
    threads: int,
) -> Report:
    return Report(
        model=spec.name,
        folder=str(folder.path) if folder is not None else None,
        digest=loaded.digest,
        device=loaded.device,
        fallback_reason=loaded.fallback_reason,
        precision=arguments.precision if folder is not None else "simulated",
        file=MODEL_FILES[arguments.precision] if folder is not None else None,
        note=note(arguments.precision, loaded.device) if folder is not None else _SIMULATED,
        threads=threads,
        layout=warmth.layout.text,
        lanes=warmth.layout.runs,
        load_ms=loaded.load_ms,
        texts_per_s={layout.text: rate for layout, rate in warmth.measured.items()},
        lane=fitted(warmth.lane),
        wide=fitted(warmth.wide) if warmth.wide else None,
    )


def _expected_s(threads: int, sessions: int, device: str, simulated: ModelSpec | None) -> float:
    """Return about how long the warm-up takes."""
    if simulated is not None:
        return warmup.SIMULATED_S
    if device != "cpu":
        return TOUCH_MOST_S + warmup.GRID_MOST_S
    possible: list[Layout] = candidates(threads, sessions)
    spinning_s = 2 * warmup.SPIN_MOST_S if threads > 1 else 0.0
    return len(possible) * (warmup.GRID_MOST_S + _OPENING_S) + spinning_s


def main(argv: list[str] | None = None) -> int:
    """Measure one model, write the picture, and print what was found."""
    parser = model_parser("python -m batcher.bench", "warm a model up and show what its batches cost")
    parser.add_argument("--sessions", type=int, default=0, help="runs at a time; 0: the best")
    parser.add_argument("--max-batch-size", type=int, default=16)
    parser.add_argument("--max-batch-tokens", type=int, default=4096)
    parser.add_argument("--picture", type=Path, default=None)
    arguments = parser.parse_args(argv)
    configure_logs(service="bench", level="warning", style="auto")
    try:
        report = asyncio.run(measure(arguments))
        target = arguments.picture or Path(f"inferq-bench-{report.model}.svg")
        try:
            target.write_text(picture(report), encoding="utf-8")
        except OSError as error:
            raise OperatorError(f"the picture cannot be written to {target}: {error.strerror}") from error
    except OperatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments.json:
        found = msgspec.to_builtins(report) | {"picture": str(target)}
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        sys.stdout.write("\n".join([*lines(report), f"picture     {target}"]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
