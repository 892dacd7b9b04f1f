"""Puts a batcher's parts together: engine, cost model, planner, worker."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from batcher.burying import Undertaker
from batcher.cache import ResultCache
from batcher.cost import CostModel
from batcher.engine import Engine
from batcher.enginecircuit import CANARY, NAME, Canary, EngineCircuit
from batcher.fitting import Fitting
from batcher.frames import MAX_FRAME_BYTES
from batcher.intake import Intake
from batcher.item import Item
from batcher.ledger import Ledger
from batcher.patience import Patience
from batcher.planner import Planner
from batcher.policy import make_policy
from batcher.settling import Settler
from batcher.shapes import Shapes, shapes_of
from batcher.tally import Tally
from batcher.task import Task
from batcher.tensortask import TensorTask
from batcher.texttask import TextTask, check_size
from batcher.tokenizer import TextTokenizer
from batcher.warmup import Warmth, warm_up
from batcher.wire import Load, Loaded
from batcher.worker import Worker
from inferq.circuit import Circuit
from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.modelfolder import ModelFolder
from inferq.modelspec import ModelKind, parse
from inferq.modelsroot import model_names, served_spec
from inferq.precision import note
from inferq.settings import Settings
from inferq.store import Store
from inferq.telemetry import Metrics
from inferq.tensors.signature import Signature, row_bytes, zeros

# Of tensors in a batch: half of what a frame to the engine may have.
MOST_BATCH_BYTES: Final = MAX_FRAME_BYTES // 2

Reader = TextTokenizer | Signature
"""What turns a job into the engine's input."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A batcher that is ready to consume."""

    engine: Engine
    loaded: Loaded
    warmth: Warmth
    circuit: EngineCircuit
    planner: Planner[Item]
    cache: ResultCache
    intake: Intake
    worker: Worker


async def assemble(
    settings: Settings,
    engine: Engine,
    reader: Reader,
    store: Store,
    tally: Tally,
    metrics: Metrics,
    *,
    batcher_id: str,
) -> Assembly:
    """Load the model, measure what its batches cost, and return the whole; ``engine`` is the caller's to stop.

    ``reader`` is the text model's tokenizer, or what the tensor model takes.

    Raises:
        OperatorError: the model cannot be loaded, or does not run.
    """
    loaded = await engine.start()
    _log.info(
        "batcher.model_loaded",
        model=settings.served,
        digest=loaded.digest[:16],
        device=loaded.device,
        precision=settings.precision,
        fallback=loaded.fallback_reason,
        load_ms=round(loaded.load_ms),
    )
    spec = parse(served_spec(settings))
    remark = None if spec.kind is ModelKind.SIMULATED else note(settings.precision, loaded.device)
    if remark is not None:
        _log.warning("batcher.precision", note=remark)
    signature = reader if isinstance(reader, Signature) else None
    most_rows, max_length = settings.max_batch_size, loaded.max_length
    if isinstance(reader, Signature):
        most_rows = most_rows_of(settings, reader)
    else:
        max_length = min(max_length, reader.max_length)
        engine.shapes = shapes_of(loaded.device, max_rows=most_rows, max_length=max_length)
    try:
        warmth = await warm_up(
            engine,
            threads=settings.threads or max(1, available_cpus() // settings.batchers),
            sessions=settings.sessions,
            device=loaded.device,
            simulated=spec if spec.kind is ModelKind.SIMULATED else None,
            max_length=max_length,
            max_rows=most_rows,
            max_tokens=settings.max_batch_tokens,
            signature=signature,
        )
    except OperatorError as error:
        # Of several batchers that start together the line must say whose it is.
        raise OperatorError(f"{settings.served}: {error}") from error
    task = _task(settings, engine, reader, loaded)
    planner = _planner(settings, warmth, most_rows, engine.shapes)
    tally.may_have(planner.fitting.limit)
    _log.info(
        "batcher.warm",
        layout=warmth.layout.text,
        texts_per_s={layout.text: round(rate, 1) for layout, rate in warmth.measured.items()},
        cost=str(planner.lane.cost),
        margin=round(planner.lane.margin, 3),
        shapes=engine.shapes.count or None,
        most_tokens=planner.fitting.limit,
        cost_wide=str(planner.wide.cost) if planner.wide is not None else None,
    )
    cache = ResultCache(0 if settings.cache == "off" else settings.cache_size)
    ledger = Ledger(store, tally.stepped)
    patience = Patience(timeout_ms=settings.engine_timeout_ms, hang_factor=settings.hang_factor)
    canary, canary_length = _canary(engine, reader, loaded, warmth)
    circuit = EngineCircuit(
        Circuit(NAME, settings.breaker_limits, metrics),
        engine,
        canary=canary,
        limit_ms=lambda wide: patience.most_ms(planner.predicted_ms(1, canary_length, wide=wide)),
    )
    intake = Intake(
        task=task,
        tally=tally,
        cache=None if settings.cache == "off" else cache,
        model_digest=loaded.digest,
        precision=settings.precision,
        slo_ms=settings.slo_ms,
        clock=time.monotonic,
        shapes=engine.shapes,
    )
    worker = Worker(
        planner=planner,
        intake=intake,
        task=task,
        ledger=ledger,
        settler=Settler(
            ledger,
            tally,
            cache,
            batcher_id=batcher_id,
            task=task,
            shared=settings.cache == "shared",
        ),
        undertaker=Undertaker(ledger, tally, batcher_id=batcher_id, max_attempts=settings.max_attempts),
        tally=tally,
        circuit=circuit,
        patience=patience,
        clock=time.monotonic,
    )
    return Assembly(
        engine=engine,
        loaded=loaded,
        warmth=warmth,
        circuit=circuit,
        planner=planner,
        cache=cache,
        intake=intake,
        worker=worker,
    )


def make_engine(settings: Settings, folder: ModelFolder | None, reader: Reader) -> Engine:
    """Return an engine for the model that these settings serve, not started."""
    return Engine(
        Load(
            spec=served_spec(settings),
            folder=str(folder.path) if folder is not None else None,
            device=settings.device,
            precision=settings.precision,
            max_output_bytes=settings.max_output_bytes,
            gpu_percent=settings.gpu_memory_percent,
            gpu_batchers=settings.batchers * len(model_names(settings)),
        ),
        pad_id=0 if isinstance(reader, Signature) else reader.pad_id,
    )


def _task(settings: Settings, engine: Engine, reader: Reader, loaded: Loaded) -> Task:
    if not isinstance(reader, Signature):
        check_size(loaded.head, loaded.width, loaded.labels, max_output_bytes=settings.max_output_bytes)
        return TextTask(engine, reader, loaded.labels, loaded.head)
    return TensorTask(
        engine, reader, max_input_bytes=settings.max_input_bytes, max_output_bytes=settings.max_output_bytes
    )


def _canary(engine: Engine, reader: Reader, loaded: Loaded, warmth: Warmth) -> tuple[Canary, int]:
    """Return a run that the engine has done in its warm-up, and its length."""
    if isinstance(reader, Signature):
        return partial(engine.run_tensors, [zeros(reader, 1, free=warmth.free)]), 1
    row = CANARY[: min(loaded.max_length, reader.max_length)]
    return partial(engine.run, [row]), len(row)


def most_rows_of(settings: Settings, signature: Signature) -> int:
    """Return the most jobs of a batch: one where they cannot share it, fewer where their tensors are large.

    Raises:
        OperatorError: no job can have so few bytes as the settings allow.
    """
    needed = row_bytes(signature)
    if needed > settings.max_input_bytes:
        raise OperatorError(
            f"{settings.served}: each job has {needed} bytes of inputs or more, beyond"
            f" INFERQ_MAX_INPUT_BYTES={settings.max_input_bytes}: raise it, or export a graph of smaller inputs"
        )
    return max(1, min(settings.max_batch_size, MOST_BATCH_BYTES // needed)) if signature.shared else 1


def _planner(settings: Settings, warmth: Warmth, most_rows: int, shapes: Shapes) -> Planner[Item]:
    return Planner(
        policy=make_policy(settings.batch_policy, max_batch_size=most_rows, max_wait_ms=settings.max_wait_ms),
        lane=CostModel(warmth.lane, shapes=shapes),
        wide=CostModel(warmth.wide, shapes=shapes) if warmth.wide else None,
        shapes=shapes,
        fitting=warmth.fitting or Fitting(most_tokens=settings.max_batch_tokens),
        lanes=warmth.layout.runs,
        max_batch_size=most_rows,
        max_batch_tokens=settings.max_batch_tokens,
    )
