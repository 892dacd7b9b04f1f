"""Puts a batcher's parts together: engine, cost model, planner, worker."""

import time
from dataclasses import dataclass

import structlog

from batcher.burying import Undertaker
from batcher.cache import ResultCache
from batcher.cost import CostModel
from batcher.engine import Engine
from batcher.fitting import Fitting
from batcher.intake import Intake
from batcher.item import Item
from batcher.ledger import Ledger
from batcher.planner import Planner
from batcher.policy import make_policy
from batcher.settling import Settler
from batcher.shapes import Shapes, shapes_of
from batcher.tally import Tally
from batcher.tokenizer import TextTokenizer
from batcher.warmup import Warmth, warm_up
from batcher.wire import Load, Loaded
from batcher.worker import Worker
from inferq.cpus import available_cpus
from inferq.modelfolder import ModelFolder
from inferq.modelspec import ModelKind, parse
from inferq.precision import note
from inferq.settings import Settings
from inferq.store import Store

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A batcher that is ready to consume."""

    engine: Engine
    loaded: Loaded
    warmth: Warmth
    planner: Planner[Item]
    cache: ResultCache
    worker: Worker


async def assemble(
    settings: Settings,
    engine: Engine,
    tokenizer: TextTokenizer,
    store: Store,
    tally: Tally,
    *,
    batcher_id: str,
) -> Assembly:
    """Load the model, measure what its batches cost, and return the whole; ``engine`` is the caller's to stop.

    Raises:
        OperatorError: the model cannot be loaded, or does not run.
    """
    loaded = await engine.start()
    _log.info(
        "batcher.model_loaded",
        digest=loaded.digest[:16],
        device=loaded.device,
        precision=settings.precision,
        fallback=loaded.fallback_reason,
        load_ms=round(loaded.load_ms),
    )
    spec = parse(settings.model)
    remark = None if spec.kind is ModelKind.SIMULATED else note(settings.precision, loaded.device)
    if remark is not None:
        _log.warning("batcher.precision", note=remark)
    max_length = min(loaded.max_length, tokenizer.max_length)
    engine.shapes = shapes_of(loaded.device, max_rows=settings.max_batch_size, max_length=max_length)
    warmth = await warm_up(
        engine,
        threads=settings.threads or max(1, available_cpus() // settings.batchers),
        sessions=settings.sessions,
        device=loaded.device,
        simulated=spec if spec.kind is ModelKind.SIMULATED else None,
        max_length=max_length,
        max_rows=settings.max_batch_size,
        max_tokens=settings.max_batch_tokens,
    )
    planner = _planner(settings, warmth, engine.shapes)
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
    ledger = Ledger(store)
    worker = Worker(
        planner=planner,
        intake=Intake(
            tokenizer=tokenizer,
            tally=tally,
            cache=None if settings.cache == "off" else cache,
            model_digest=loaded.digest,
            precision=settings.precision,
            slo_ms=settings.slo_ms,
            clock=time.monotonic,
            shapes=engine.shapes,
        ),
        engine=engine,
        ledger=ledger,
        settler=Settler(
            ledger,
            tally,
            cache,
            batcher_id=batcher_id,
            labels=loaded.labels,
            shared=settings.cache == "shared",
        ),
        undertaker=Undertaker(ledger, tally, batcher_id=batcher_id, max_attempts=settings.max_attempts),
        tally=tally,
        timeout_ms=settings.engine_timeout_ms,
        hang_factor=settings.hang_factor,
        clock=time.monotonic,
    )
    return Assembly(engine=engine, loaded=loaded, warmth=warmth, planner=planner, cache=cache, worker=worker)


def make_engine(settings: Settings, folder: ModelFolder | None, tokenizer: TextTokenizer) -> Engine:
    """Return an engine for the settings' model, not started."""
    return Engine(
        Load(
            spec=settings.model,
            folder=str(folder.path) if folder is not None else None,
            device=settings.device,
            precision=settings.precision,
            gpu_percent=settings.gpu_memory_percent,
            gpu_batchers=settings.batchers,
        ),
        pad_id=tokenizer.pad_id,
    )


def _planner(settings: Settings, warmth: Warmth, shapes: Shapes) -> Planner[Item]:
    return Planner(
        policy=make_policy(
            settings.batch_policy, max_batch_size=settings.max_batch_size, max_wait_ms=settings.max_wait_ms
        ),
        lane=CostModel(warmth.lane, shapes=shapes),
        wide=CostModel(warmth.wide, shapes=shapes) if warmth.wide else None,
        shapes=shapes,
        fitting=warmth.fitting or Fitting(most_tokens=settings.max_batch_tokens),
        lanes=warmth.layout.runs,
        max_batch_size=settings.max_batch_size,
        max_batch_tokens=settings.max_batch_tokens,
    )
